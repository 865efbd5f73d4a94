/** Charts over time: uPlot, behind this one module. */
import uPlot from '../../vendor/uplot/uplot.js';
import { html, useEffect, useRef } from '../lib.js';
import { theme } from '../preferences.js';

const LABEL = 96;

/** Series: {label, values, color (a custom property), fill, dash, write}. Levels: {value, label, color, dash}.
 * `shaded`: values; times at which they are not 0 have a darker ground.
 */
export function Chart({ label, at, series, levels = [], shaded, write, height = 200, group }) {
  const place = useRef();
  const plot = useRef();
  const ground = useRef();
  ground.current = shaded;
  const chosen = theme.use();
  const shape = `${chosen} ${series.map((each) => each.label)} ${levels.map((each) => [each.label, each.value])}`;
  const data = [at.map((each) => each / 1000), ...series.map((each) => each.values)];
  useEffect(() => {
    const options = optionsOf({ series, levels, write, height, group, ground, width: place.current.clientWidth });
    plot.current = new uPlot(options, data, place.current);
    const watch = new ResizeObserver(() => plot.current.setSize({ width: place.current.clientWidth, height }));
    watch.observe(place.current);
    return () => {
      watch.disconnect();
      plot.current.destroy();
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
    padding: [8, 8, 0, 0],
    cursor: { sync: group ? { key: group } : undefined, points: { size: 7 }, drag: { x: false, y: false } },
    legend: { live: true, markers: { width: 2 } },
    scales: { y: { range: (_plot, _least, most) => [0, Math.max(most, top, 1) * 1.08] } },
    axes: [
      { ...axis, size: 28, space: 80, values: (_plot, times) => times.map(timeOf) },
      { ...axis, size: 56, values: (_plot, values) => values.map(write) },
    ],
    series: [{ value: (_plot, time) => (time ? timeOf(time) : '') }, ...series.map((each) => line(each, write))],
    hooks: {
      drawClear: [(plot) => drawGround(plot, ground.current)],
      draw: [(plot) => levels.forEach((level, index) => drawLevel(plot, level, index))],
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

function drawLevel(plot, { value, label, color: name, dash }, index) {
  const context = plot.ctx;
  const y = Math.round(plot.valToPos(value, 'y', true));
  const ratio = devicePixelRatio;
  context.save();
  context.strokeStyle = context.fillStyle = color(name);
  context.lineWidth = ratio;
  context.setLineDash((dash ?? []).map((each) => each * ratio));
  context.beginPath();
  context.moveTo(plot.bbox.left, y);
  context.lineTo(plot.bbox.left + plot.bbox.width, y);
  context.stroke();
  context.font = `${11 * ratio}px system-ui`;
  context.textAlign = 'right';
  context.fillText(label, plot.bbox.left + plot.bbox.width - (4 + LABEL * index) * ratio, y - 4 * ratio);
  context.restore();
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
