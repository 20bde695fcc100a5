// A worker. Browsers let the timers of a hidden page wait for up to a minute, but not those of its workers.
setInterval(() => postMessage(null), 5000);
