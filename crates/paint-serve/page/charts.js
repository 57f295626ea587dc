// The timeline: two charts and a strip of conditions over the same stretch of time.
'use strict';

const PALETTE = ['#e4572e', '#2e86ab', '#3fa34d', '#8e5ea2', '#d4a017', '#17a2a2', '#c2477f', '#6c7a89', '#7f9c1d', '#5563de'];

const STRIP = 78;

/** The colour of a condition, the same in strip and table. */
function colourOf(condition) {
  return PALETTE[condition % PALETTE.length];
}

class Timeline {
  constructor(boxes) {
    this.boxes = boxes;
    this.points = [];
    this.build();
    new ResizeObserver(() => this.resize()).observe(boxes.accuracy);
  }

  width() {
    return Math.max(this.boxes.accuracy.clientWidth, 240);
  }

  build() {
    const css = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
    const line = (label, colour, more) => ({ label, stroke: css(colour), width: 2, points: { show: false }, spanGaps: true, ...more });
    const axis = { stroke: css('--soft'), grid: { stroke: css('--line'), width: 1 }, ticks: { show: false }, font: '12px system-ui, sans-serif' };
    const clock = t => new Date(1000 * t).toLocaleTimeString([], { hour12: false });
    const silent = { ...axis, size: 6, values: () => [] };
    const time = { value: (_, t) => t == null ? '–' : clock(t), label: 'time' };
    const percent = v => v == null ? '–' : (100 * v).toFixed(1) + ' %';
    const share = v => v == null ? '–' : v.toFixed(2);
    const base = { width: this.width(), cursor: { sync: { key: 'time' }, drag: { x: false, y: false } }, padding: [8, 12, 0, 0] };
    const y = format => ({ ...axis, size: 54, values: (_, ticks) => ticks.map(format) });
    this.destroy();
    this.accuracy = new uPlot({
      ...base, height: 200, title: 'Accuracy (estimate)',
      scales: { y: { range: (_, low, high) => [Math.max(0, (low ?? 0) - .05), Math.min(1, (high ?? 1) + .05)] } },
      axes: [silent, y(v => Math.round(100 * v) + ' %')],
      series: [time, line('adapted (estimate)', '--accent', { value: (_, v) => percent(v) }),
        line('frozen (estimate)', '--second', { dash: [6, 4], value: (_, v) => percent(v) })],
    }, this.columns('estimate_adapted', 'estimate_frozen'), this.boxes.accuracy);
    this.likeness = new uPlot({
      ...base, height: 150, title: 'Likeness and entropy',
      scales: { y: { range: [0, 1] } },
      axes: [silent, y(share)],
      series: [time, line('likeness', '--third', { value: (_, v) => share(v) }),
        line('entropy', '--fourth', { value: (_, v) => share(v) })],
    }, this.columns('reliability', 'entropy'), this.boxes.likeness);
    this.strip = new uPlot({
      ...base, height: STRIP, legend: { show: false },
      scales: { y: { range: [0, 1] } },
      axes: [{ ...axis, size: 26, space: 80, grid: { show: false }, values: (_, ticks) => ticks.map(clock) }, { ...axis, size: 54, grid: { show: false }, values: () => [] }],
      series: [{}, { show: false }],
      hooks: { draw: [u => this.paint(u, css('--ink'), css('--bad'))] },
    }, this.columns('entropy'), this.boxes.strip);
  }

  destroy() {
    for (const chart of [this.accuracy, this.likeness, this.strip]) if (chart) chart.destroy();
  }

  columns(...keys) {
    return [this.points.map(p => p.time), ...keys.map(key => this.points.map(p => p[key]))];
  }

  /** Each step reaches to the next; a triangle marks a new condition, a bar what the guard did. */
  paint(u, ink, bad) {
    const { ctx } = u, { left, top, width, height } = u.bbox, points = this.points, ratio = devicePixelRatio || 1;
    ctx.save();
    ctx.beginPath();
    ctx.rect(left, top, width, height);
    ctx.clip();
    points.forEach((p, i) => {
      const x = u.valToPos(p.time, 'x', true);
      const end = i + 1 < points.length ? u.valToPos(points[i + 1].time, 'x', true) : left + width;
      ctx.fillStyle = colourOf(p.condition);
      ctx.globalAlpha = p.is_frozen ? .45 : 1;
      ctx.fillRect(x, top + 10 * ratio, Math.max(end - x, 1), height - 10 * ratio);
      ctx.globalAlpha = 1;
      if (p.is_new) {
        ctx.fillStyle = ink;
        ctx.beginPath();
        ctx.moveTo(x - 4 * ratio, top);
        ctx.lineTo(x + 4 * ratio, top);
        ctx.lineTo(x, top + 7 * ratio);
        ctx.fill();
      }
      if (p.guard) {
        ctx.fillStyle = bad;
        ctx.fillRect(x, top, 2 * ratio, height);
      }
    });
    ctx.restore();
  }

  show(points) {
    this.points = points;
    this.accuracy.setData(this.columns('estimate_adapted', 'estimate_frozen'));
    this.likeness.setData(this.columns('reliability', 'entropy'));
    this.strip.setData(this.columns('entropy'));
  }

  resize() {
    const width = this.width();
    for (const [chart, height] of [[this.accuracy, 200], [this.likeness, 150], [this.strip, STRIP]]) {
      if (chart.width !== width) chart.setSize({ width, height });
    }
  }
}
