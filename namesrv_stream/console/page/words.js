// Numbers and times in words, in the reader's time zone.

const DAY = new Intl.DateTimeFormat(undefined, { weekday: "long", day: "numeric", month: "long" });
const CLOCK = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
const SHORT_DAY = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short" });

export const clock = (at) => CLOCK.format(new Date(at));
export const visible = (name) => (name === name.trim() ? name : `"${name}"`); // a blank at an end is seen
export const counted = (count, noun) => `${count.toLocaleString()} ${noun}${count === 1 ? "" : "s"}`;
export const percent = (share) => `${(100 * share).toFixed(share > 0.999 && share < 1 ? 3 : 1)} %`;

export function when(at) {
  const date = new Date(at);
  return date.toDateString() === new Date().toDateString() ? clock(at) : `${SHORT_DAY.format(date)}, ${clock(at)}`;
}

export function momentText(at) {
  const date = new Date(at);
  const days = Math.round((new Date().setHours(0, 0, 0, 0) - new Date(at).setHours(0, 0, 0, 0)) / 86_400_000);
  const day = days === 0 ? "today" : days === 1 ? "yesterday" : DAY.format(date);
  return `${day}, ${clock(at)}`;
}

export function duration(millis) {
  const parts = [];
  let rest = Math.max(0, Math.floor(millis / 1000));
  for (const [unit, size] of [["d", 86_400], ["h", 3_600], ["m", 60], ["s", 1]]) {
    const count = Math.floor(rest / size);
    rest %= size;
    if (count || (unit === "s" && !parts.length)) parts.push(`${count}${unit}`);
  }
  return parts.slice(0, 2).join(" ");
}

export const ago = (at) => `${duration(Date.now() - new Date(at))} ago`;

export function perm(bits) {
  const letters = [[4, "R"], [2, "W"], [1, "X"]].map(([bit, letter]) => (bits & bit ? letter : "-")).join("");
  return bits & 8 ? `P${letters}` : letters;
}

export function eventsText(mark) {
  const told = [];
  if (mark.begins) told.push(`${counted(mark.begins, "broker")} came`);
  if (mark.ends) told.push(`${counted(mark.ends, "broker")} left`);
  if (mark.commands) told.push(counted(mark.commands, "command"));
  if (mark.gaps) told.push(`${counted(mark.gaps, "time")} without a tick`);
  if (mark.others) told.push(counted(mark.others, "other change"));
  if (mark.epochs > 1) told.push(`in ${counted(mark.epochs, "moment")}`);
  return told.join(", ");
}
