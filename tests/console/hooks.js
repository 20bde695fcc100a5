// What a test of the page does to the window that it is in: see Page.hook in tests/console/chromium.py.
window.hooks = {
  // Makes the page believe that it is in the background; a browser that nobody sees shows all its tabs.
  hide() {
    Object.defineProperty(document, "hidden", { configurable: true, get: () => true });
    document.dispatchEvent(new Event("visibilitychange"));
  },
  // Keeps what the page would save to a file, and its name.
  save() {
    URL.createObjectURL = (blob) => {
      blob.arrayBuffer().then((found) => {
        window.saved = [...new Uint8Array(found)];
      });
      return "#";
    };
    HTMLAnchorElement.prototype.click = function click() {
      window.savedAs = this.download;
    };
  },
  // Notes the numbers of brokers and topics with each change of the page.
  watch() {
    window.drawn = [];
    const text = () =>
      `${document.querySelector("#verdict").textContent} ${document.querySelector("main h2").textContent}`;
    const note = () => window.drawn.push(text().match(/\d+/g).map(Number));
    new MutationObserver(note).observe(document.body, { childList: true, subtree: true, characterData: true });
  },
};
