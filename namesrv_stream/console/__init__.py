"""The console: routes, history and commands over HTTP, pushed changes, and a page that shows them at any moment.

It answers in many threads, for each of which delta-rs's allocator (jemalloc) and Arrow's keep memory. They are set
here, before they are loaded, to give it back. Whoever has set these variables otherwise is left alone.
"""

import os

os.environ.setdefault("_RJEM_MALLOC_CONF", "narenas:1,background_thread:true,dirty_decay_ms:200,muzzy_decay_ms:0")
os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
