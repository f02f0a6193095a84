// Starts the page. Over HTTP, an open page then takes what its run has answered since, without a reload.
"use strict";

(() => {
  const SECONDS = 2;
  VIEW.start();
  const own = VIEW.news();
  if (own) setTimeout(follow, own.more ? 0 : 1000 * SECONDS);

  async function follow() {
    VIEW.lost = !(await VIEW.script(VIEW.news().path));
    const { log, more } = VIEW.news();
    // Another run is served at this address.
    if (log !== own.log) return location.reload();
    VIEW.update();
    setTimeout(follow, more && !VIEW.lost ? 0 : 1000 * SECONDS);
  }
})();
