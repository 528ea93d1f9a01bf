// Dots that run along a link, faster where there are more packets a second. They move only while something can be
// seen moving: the one animation loop runs while traffic does, the panel is in view, and no one asked for less motion.

const SPACING = 34;

/** The dots of one link, both ways. */
function makeFlow(points) {
  const lengths = points.slice(1).map(([x, y], i) => Math.hypot(x - points[i][0], y - points[i][1]));
  const [start, end] = [10, 20];
  const whole = lengths.reduce((a, b) => a + b, 0);
  const total = whole - start - end;
  const [[ax, ay], [bx, by]] = points;
  const aside = Math.abs(bx - ax) > Math.abs(by - ay) ? [0, 1] : [1, 0];
  const n = Math.min(14, Math.max(2, Math.floor(total / SPACING)));
  const group = svg("g", { class: "xdp-dots", "aria-hidden": "true" });
  const ways = [makeWay(1), makeWay(-1)];

  function makeWay(sign) {
    const dots = Array.from({ length: n }, () => svg("circle", { r: 3.2 }));
    const own = svg("g", { display: "none" }, ...dots);
    group.append(own);
    return { sign, dots, own, offset: 0, speed: 0 };
  }

  function place(way) {
    way.dots.forEach((dot, i) => {
      let along = (way.offset + (i * total) / n) % total;
      along = way.sign < 0 ? whole - start - along : start + along;
      let part = 0;
      while (part < lengths.length - 1 && along > lengths[part]) along -= lengths[part++];
      const [[x1, y1], [x2, y2]] = [points[part], points[part + 1]];
      const t = along / lengths[part];
      dot.setAttribute("cx", (x1 + (x2 - x1) * t).toFixed(1));
      dot.setAttribute("cy", (y1 + (y2 - y1) * t).toFixed(1));
    });
  }

  ways.forEach(place);
  return {
    group,
    get moving() {
      return ways.some((way) => way.speed > 0);
    },
    set(ab, ba) {
      [ab, ba].forEach((pps, i) => {
        ways[i].speed = dotSpeed(pps);
        setShown(ways[i].own, ways[i].speed > 0);
      });
      const both = ways.every((way) => way.speed > 0) ? 4 : 0;
      for (const { sign, own } of ways)
        setAttribute(own, "transform", `translate(${-sign * both * aside[0]} ${-sign * both * aside[1]})`);
    },
    step(seconds) {
      for (const way of ways) {
        if (!way.speed) continue;
        way.offset = (way.offset + way.speed * seconds) % total;
        place(way);
      }
    },
  };
}

/** Pixels a second: twice as fast for ten times the packets. */
function dotSpeed(pps) {
  return pps > QUIET_PPS ? Math.min(300, 20 * 2 ** Math.max(0, Math.log10(pps) - 3)) : 0;
}

/** The animation loop. `wanted()` says whether anything may move; call wake() when that may have changed. */
function makeAnimation(flows, wanted) {
  let request = 0;
  let before = 0;
  const tick = (now) => {
    request = 0;
    if (!wanted()) return;
    const seconds = Math.min(0.1, (now - before) / 1000);
    before = now;
    let moving = false;
    for (const flow of flows()) {
      flow.step(seconds);
      moving ||= flow.moving;
    }
    if (moving) request = requestAnimationFrame(tick);
  };
  return {
    wake() {
      if (request || !wanted() || !flows().some((flow) => flow.moving)) return;
      before = performance.now();
      request = requestAnimationFrame(tick);
    },
    stop() {
      cancelAnimationFrame(request);
      request = 0;
    },
  };
}
