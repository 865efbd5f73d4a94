/** The depth of a queue against its marks and its bound. */
import { bytes, count } from '../format.js';
import { html } from '../lib.js';

/** A queue's state: held if it is saturated, near beyond its resume mark. */
export function queueState(queue) {
  const flow = queue.flow ?? {};
  if (flow.saturated) return 'held';
  if (beyond(queue.messages, flow.resume_count) || beyond(queue.message_bytes, flow.resume_bytes)) return 'near';
  return flow.spilling ? 'spills' : 'flowing';
}

function beyond(value, mark) {
  return mark > 0 && value > mark;
}

/** The measure that is fuller: messages or bytes. */
export function measureOf(queue) {
  const flow = queue.flow ?? {};
  const inCount = { unit: 'count', depth: queue.messages ?? 0, stop: flow.stop_count, resume: flow.resume_count, bound: flow.bound_count };
  const inBytes = { unit: 'bytes', depth: queue.message_bytes ?? 0, stop: flow.stop_bytes, resume: flow.resume_bytes, bound: flow.bound_bytes };
  const part = (each) => (each.stop > 0 ? each.depth / each.stop : -1);
  return part(inBytes) > part(inCount) ? inBytes : inCount;
}

export function DepthBar({ queue }) {
  const measure = measureOf(queue);
  const write = measure.unit === 'bytes' ? bytes : count;
  if (!(measure.stop > 0)) return html`<span class="depth-none">no marks</span>`;
  const whole = Math.max(measure.bound || 0, measure.stop, measure.depth, 1);
  const place = (value) => `${(100 * value) / whole}%`;
  const words = `${write(measure.depth)}; resumes at ${write(measure.resume)}, stops at ${write(measure.stop)}`
    + (measure.bound > 0 ? `, bound ${write(measure.bound)}` : '');
  return html`<span class="depth is-${queueState(queue)}" role="img" aria-label=${words} title=${words}>
    <i class="depth-fill" style=${{ width: place(measure.depth) }}></i>
    <i class="depth-mark is-resume" style=${{ left: place(measure.resume) }}></i>
    <i class="depth-mark is-stop" style=${{ left: place(measure.stop) }}></i>
  </span>`;
}

/** How full something is, with both numbers. */
export function Meter({ label, value, whole, write = bytes, state }) {
  const part = whole > 0 ? Math.min(value / whole, 1) : 0;
  const found = state ?? (part > 0.9 ? 'held' : part > 0.7 ? 'near' : 'flowing');
  return html`<div class="meter">
    <span class="meter-label">${label}</span>
    <span class="depth is-${found}" role="img" aria-label=${`${label}: ${write(value)} of ${write(whole)}`}>
      <i class="depth-fill" style=${{ width: `${100 * part}%` }}></i>
    </span>
    <span class="meter-value">${write(value)} of ${write(whole)}</span>
  </div>`;
}
