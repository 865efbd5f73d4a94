/** What a policy would change: the answer of a dry run. */
import { plural } from '../format.js';
import { html } from '../lib.js';
import { shown } from '../names.js';

const MOST = 8;

export function PolicyTrial({ trial }) {
  const queues = trial.queues ?? [];
  const others = Object.entries(trial).filter(([name, value]) => name !== 'queues' && hasWeight(value));
  return html`<div class="outcome" aria-live="polite"><strong>Dry run: ${plural(queues.length, 'queue')} would change</strong>
    ${queues.slice(0, MOST).map((queue) => html`<span><span class="name">${shown(queue.name)}</span>
      <span class="muted"> ${queue.after === undefined ? '' : `${said(queue.before)} → ${said(queue.after)}`}${rest(queue)}</span></span>`)}
    ${queues.length > MOST && html`<span class="muted">and ${queues.length - MOST} more</span>`}
    ${others.map(([name, value]) => html`<span class="muted">${shown(name)}: ${said(value)}</span>`)}
  </div>`;
}

function hasWeight(value) {
  return Array.isArray(value) ? value.length > 0 : Boolean(value);
}

function said(value) {
  if (value === null || value === undefined) return 'none';
  if (typeof value !== 'object') return shown(value);
  if (Array.isArray(value)) return value.map(said).join(', ');
  return Object.entries(value).filter(([, each]) => each !== null).map(([name, each]) => `${shown(name)} ${said(each)}`).join(', ') || 'none';
}

function rest({ vhost: _vhost, name: _name, before: _before, after: _after, queue_id: _id, slot: _slot, ...more }) {
  const parts = Object.entries(more).filter(([, value]) => hasWeight(value)).map(([name, value]) => (value === true ? shown(name) : `${shown(name)} ${said(value)}`));
  return parts.length ? `; ${parts.join(', ')}` : '';
}
