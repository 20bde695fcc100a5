// Numbers and times in words. All times are in the zone that the reader has chosen: this browser's, UTC or any other.

const KEPT = "namesrv-stream.zone";
export const LOCAL = Intl.DateTimeFormat().resolvedOptions().timeZone;

let chosen = kept() ?? LOCAL;
let formats = made(chosen);

function kept() {
  try {
    const name = localStorage.getItem(KEPT);
    return name && made(name) ? name : null;
  } catch {
    // no storage, or a zone that this browser does not know
    return null;
  }
}

function made(timeZone) {
  const format = (options) => new Intl.DateTimeFormat(undefined, { timeZone, ...options });
  return {
    clock: format({ hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" }),
    day: format({ weekday: "long", day: "numeric", month: "long" }),
    shortDay: format({ day: "numeric", month: "short" }),
    date: new Intl.DateTimeFormat("en-CA", { timeZone, dateStyle: "short" }),
    zone: format({ timeZoneName: "short" }),
  };
}

export const zone = () => chosen;

export function setZone(name) {
  formats = made(name);
  chosen = name;
  try {
    if (name === LOCAL) localStorage.removeItem(KEPT);
    else localStorage.setItem(KEPT, name);
  } catch {
    // it holds until the page is loaded again
  }
}

export function zones() {
  const others = Intl.supportedValuesOf("timeZone").filter((name) => name !== LOCAL && name !== "UTC");
  return [...new Set([LOCAL, "UTC", ...others])];
}

const zoneText = (at) => formats.zone.formatToParts(new Date(at)).find((part) => part.type === "timeZoneName").value;
export const clock = (at) => formats.clock.format(new Date(at));
export const visible = (name) => (name === name.trim() ? name : `"${name}"`); // a blank at an end is seen
export const counted = (count, noun, plural = `${noun}s`) => `${count.toLocaleString()} ${count === 1 ? noun : plural}`;
export const percent = (share) => `${(100 * share).toFixed(share > 0.999 && share < 1 ? 3 : 1)}%`;
export const role = (id) => (Number(id) === 0 ? "master" : `slave ${id}`);
export const brokerText = ({ brokerName, brokerId }) => `${brokerName} ${role(brokerId)}`;

export const STATES = {
  alive: "up",
  late: "late",
  suspect: "suspect",
  down: "down",
  left: "unregistered",
  planned: "planned absence",
};
const ENDS = {
  EXPIRED: "expired",
  CHANNEL_CLOSED: "disconnected",
  UNREGISTERED: "unregistered",
  MOVED: "moved",
  REFUSED: "rejected",
};
export const endText = (type) => ENDS[type] ?? type;

const dateOf = (at) => formats.date.format(new Date(at));
const daysAgo = (at) => Math.round((new Date(dateOf(Date.now())) - new Date(dateOf(at))) / 86_400_000);

export const when = (at) =>
  (daysAgo(at) === 0 ? clock(at) : `${formats.shortDay.format(new Date(at))}, ${clock(at)}`) + zoneOnChange(at);

// The zone of a time on a day on which the clocks change, because one hour of it may come twice; else nothing.
const changing = new Map();
function zoneOnChange(at) {
  const day = `${dateOf(at)} ${chosen}`;
  if (!changing.has(day)) {
    const hours = Array.from({ length: 49 }, (_, number) => new Date(at).getTime() + (number - 24) * 3_600_000);
    const zones = hours.filter((hour) => dateOf(hour) === dateOf(at)).map(zoneText);
    changing.set(day, new Set(zones).size > 1);
  }
  return changing.get(day) ? ` ${zoneText(at)}` : "";
}

export function momentText(at) {
  const days = daysAgo(at);
  const day = days === 0 ? "today" : days === 1 ? "yesterday" : formats.day.format(new Date(at));
  return `${day}, ${clock(at)} ${zoneText(at)}`;
}

// What is said of a time that the clocks showed twice on its day; nothing of any other.
export function twiceText(at) {
  const time = new Date(at);
  const other = [-3_600_000, 3_600_000]
    .map((millis) => new Date(time.getTime() + millis))
    .find((each) => clock(each) === clock(time) && dateOf(each) === dateOf(time));
  return other
    ? `This time came twice on that day: shown is that in ${zoneText(time)}, the other was in ${zoneText(other)}.`
    : "";
}

// The one label of a snapshot's time. A claim before the first record has no event time.
export const snapshotText = (snapshot) => (snapshot.eventTime ? when(snapshot.eventTime) : "before the first record");

export function duration(millis) {
  const parts = [];
  let rest = Math.max(0, Math.floor(millis / 1000));
  for (const [unit, size] of [
    ["d", 86_400],
    ["h", 3_600],
    ["m", 60],
    ["s", 1],
  ]) {
    const count = Math.floor(rest / size);
    rest %= size;
    if (count) parts.push(`${count}${unit}`);
  }
  return parts.slice(0, 2).join(" ") || "<1s";
}

export const age = (millis) => (millis < 1000 ? "just now" : `${duration(millis)} ago`);
export const ago = (at) => age(Date.now() - new Date(at));

export function perm(bits) {
  const letters = [
    [4, "R"],
    [2, "W"],
    [1, "X"],
  ]
    .map(([bit, letter]) => (bits & bit ? letter : "-"))
    .join("");
  return bits & 8 ? `P${letters}` : letters;
}

export function eventsText(mark) {
  const told = [];
  const isOne = !(mark.epochs > 1); // in several snapshots a broker may have come online and gone offline more than once
  if (mark.begins) told.push(isOne ? `${counted(mark.begins, "broker")} came online` : counted(mark.begins, "start"));
  if (mark.ends) told.push(isOne ? `${counted(mark.ends, "broker")} went offline` : counted(mark.ends, "end"));
  if (mark.commands) told.push(counted(mark.commands, "operator command"));
  if (mark.gaps) told.push(`${counted(mark.gaps, "gap")} without clock ticks`);
  if (mark.others) told.push(counted(mark.others, "other change"));
  if (!isOne) told.push(`in ${counted(mark.epochs, "snapshot")}`);
  return told.join(", ");
}
