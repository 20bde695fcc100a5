// A worker. Browsers let the timers of a hidden page wait for up to a minute, but not those of its workers.
// With the limit of a status, 5 s, a console that hangs is told within 10 s.
setInterval(() => postMessage(null), 4000);
