// Starts the page. Over HTTP, an open page then takes what its run has answered since, without a reload.
"use strict";

(() => {
  const SECONDS = 2;
  const PATIENCE = 60; // A tunnel that broke may never say so.
  VIEW.start();
  const own = VIEW.news();
  if (own) setTimeout(follow, own.more ? 0 : 1000 * SECONDS);

  async function follow() {
    VIEW.lost = !(await Promise.race([VIEW.script(VIEW.news().path), new Promise((end) => setTimeout(end, 1000 * PATIENCE))]));
    const { log, more } = VIEW.news();
    // Another run is served at this address.
    if (log !== own.log) return location.reload();
    VIEW.update();
    setTimeout(follow, more && !VIEW.lost ? 0 : 1000 * SECONDS);
  }
})();
