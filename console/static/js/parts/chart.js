/** Charts over time: uPlot, behind this one module. */
import uPlot from '../../vendor/uplot/uplot.js';
import { html, useEffect, useRef } from '../lib.js';
import { isDark, theme } from '../preferences.js';

const LABEL = { width: 92, height: 13 };

/** Series: {label, values, color (a custom property), fill, dash, write}. Levels: {value, label, color, dash}.
 * `shaded`: values; times at which they are not 0 have a darker ground.
 */
export function Chart({ label, at, series, levels = [], shaded, write, height = 200, group }) {
  const place = useRef();
  const plot = useRef();
  const ground = useRef();
  ground.current = shaded;
  theme.use();
  const shape = `${isDark()} ${series.map((each) => each.label)} ${levels.map((each) => [each.label, each.value])}`;
  const data = [at.map((each) => each / 1000), ...series.map((each) => each.values)];
  useEffect(() => {
    const element = place.current;
    const options = optionsOf({ series, levels, write, height, group, ground, width: element.clientWidth });
    const drawn = new uPlot(options, data, element);
    plot.current = drawn;
    let frame;
    const watch = new ResizeObserver(() => {
      cancelAnimationFrame(frame); // a new size at once could resize the page again, which the browser reports as an error
      frame = requestAnimationFrame(() => drawn.setSize({ width: element.clientWidth, height }));
    });
    watch.observe(element);
    return () => {
      watch.disconnect();
      cancelAnimationFrame(frame);
      drawn.destroy();
    };
  }, [shape, height]);
  useEffect(() => plot.current.setData(data), [at]);
  return html`<figure class="chart">
    <div ref=${place} aria-hidden="true"></div>
    <figcaption class="unseen">${label}: ${series.map((each) => `${each.label} ${write(each.values.at(-1))}`).join(', ')}</figcaption>
  </figure>`;
}

function color(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

function optionsOf({ series, levels, write, height, group, ground, width }) {
  const axis = { stroke: color('--muted'), font: '12px system-ui', grid: { stroke: color('--line'), width: 1 }, ticks: { show: false } };
  const top = Math.max(0, ...levels.map((each) => each.value));
  return {
    width,
    height,
    padding: [8, levels.length ? LABEL.width : 8, 0, 0],
    cursor: { sync: group ? { key: group } : undefined, points: { size: 7 }, drag: { x: false, y: false } },
    legend: { live: true, markers: { width: 2 } },
    scales: { y: { range: (_plot, _least, most) => [0, Math.max(most, top, 1) * 1.08] } },
    axes: [
      { ...axis, size: 28, space: 80, values: (plot, times) => times.map((time) => (plot.data[0].length ? timeOf(time) : '')) },
      { ...axis, size: 56, values: (_plot, values) => values.map(write) },
    ],
    series: [{ value: (_plot, time) => (time ? timeOf(time) : '') }, ...series.map((each) => line(each, write))],
    hooks: {
      drawClear: [(plot) => drawGround(plot, ground.current)],
      draw: [(plot) => drawLevels(plot, levels)],
    },
  };
}

function timeOf(time) {
  return new Date(time * 1000).toLocaleTimeString('en-GB');
}

function line(each, write) {
  const stroke = color(each.color);
  return {
    label: each.label,
    stroke,
    width: each.width ?? 1.5,
    fill: each.fill ? `${stroke}2e` : undefined,
    dash: each.dash,
    points: { show: false },
    value: (_plot, value) => (value === null || value === undefined ? '–' : (each.write ?? write)(value)),
  };
}

/** Shade the times at which producers were held. */
function drawGround(plot, values) {
  if (!values) return;
  const { ctx, bbox, data } = plot;
  const x = (index) => plot.valToPos(data[0][index], 'x', true);
  ctx.save();
  ctx.fillStyle = `${color('--held')}24`;
  for (let index = 0; index < values.length; index += 1) {
    if (!values[index]) continue;
    const begun = index;
    while (values[index + 1]) index += 1;
    ctx.fillRect(x(begun), bbox.top, Math.max(x(index) - x(begun), 2), bbox.height);
  }
  ctx.restore();
}

/** Draw marks as lines across the chart, each named at its right end; names keep clear of each other. */
function drawLevels(plot, levels) {
  let free = Infinity;
  for (const level of [...levels].sort((one, other) => one.value - other.value)) {
    free = Math.min(drawLevel(plot, level, free), free);
  }
}

function drawLevel({ ctx, bbox, valToPos }, { value, label, color: name, dash }, free) {
  const ratio = devicePixelRatio;
  const y = Math.round(valToPos(value, 'y', true));
  const end = bbox.left + bbox.width;
  const place = Math.min(y, free);
  ctx.save();
  ctx.strokeStyle = ctx.fillStyle = color(name);
  ctx.lineWidth = ratio;
  ctx.setLineDash((dash ?? []).map((each) => each * ratio));
  ctx.beginPath();
  ctx.moveTo(bbox.left, y);
  ctx.lineTo(end, y);
  ctx.stroke();
  ctx.font = `${11 * ratio}px system-ui`;
  ctx.textAlign = 'left';
  ctx.textBaseline = 'middle';
  ctx.fillText(label, end + 6 * ratio, place);
  ctx.restore();
  return place - LABEL.height * ratio;
}

/** The course of some values, small. */
export function Spark({ values, state = 'flowing' }) {
  const known = values.filter(Number.isFinite);
  if (known.length < 2) return html`<svg class="spark" aria-hidden="true"></svg>`;
  const most = Math.max(...known, 1e-9);
  const points = known.map((value, index) => `${(100 * index) / (known.length - 1)},${30 - (28 * value) / most}`);
  return html`<svg class="spark is-${state}" viewBox="0 0 100 32" preserveAspectRatio="none" aria-hidden="true">
    <path class="spark-fill" d=${`M0,32 L${points.join(' L')} L100,32 Z`} />
    <path class="spark-line" d=${`M${points.join(' L')}`} />
  </svg>`;
}
