/** Held channels: whose, for how long, and for what. */
import { seconds, bytes, clock, plural } from '../format.js';
import { html } from '../lib.js';
import { exchangeShown, shown } from '../names.js';
import { to } from '../route.js';
import { Mark } from './mark.js';
import { ConnectionLink, Name, QueueLink } from './names.js';
import { Table } from './table.js';

const MOST = 200;

export const heldKey = (held) => `${held.connection}#${held.channel}`;

/** The causes of all held channels, those of most channels first, each once. */
export function causesOf(held) {
  const found = new Map();
  for (const [cause, time] of held.flatMap((each) => (each.causes ?? []).map((cause) => [cause, each.held_seconds]))) {
    const key = [cause.kind, cause.vhost, cause.name, cause.shard, cause.number].join(' ');
    const { channels = 0, longest = 0 } = found.get(key) ?? {};
    found.set(key, { ...cause, channels: channels + 1, longest: Math.max(longest, time) });
  }
  return [...found.values()].sort((one, other) => other.channels - one.channels);
}

/** "held by hand" if only stops hold it. */
export function heldState(held) {
  return (held.causes ?? []).length && held.causes.every((cause) => cause.kind === 'stop') ? 'by-hand' : 'held';
}

export function Cause({ cause }) {
  const marks = cause.stop > 0 ? `${cause.depth} of ${cause.stop}, resumes at ${cause.resume}` : '';
  const soon = cause.resumes_in > 0 ? `room in about ${seconds(cause.resumes_in)}` : '';
  if (cause.kind === 'queue' && cause.name !== undefined) {
    return html`<span class="stack"><${QueueLink} vhost=${cause.vhost} name=${cause.name} />
      <span class="muted">${[marks || afterColon(cause.text), soon].filter(Boolean).join(' · ')}</span></span>`;
  }
  const until = cause.kind === 'stop' && cause.until ? `until ${clock(cause.until)}` : '';
  return html`<span class="stack"><span>${shown(cause.text)}</span><span class="muted">${[until, soon].filter(Boolean).join(' · ')}</span></span>`;
}

/** The numbers of a cause's text, whose name is said already. */
function afterColon(text) {
  return shown(String(text ?? '').split(': ').slice(1).join(': '));
}

export function HeldTable({ held, why, onWhy }) {
  const columns = [
    { label: '', hidden: 'State', kind: 'sign', cell: (row) => html`<${Mark} state=${heldState(row)} />` },
    { label: 'Connection', wide: true, cell: (row) => html`<span class="stack"><${ConnectionLink} name=${row.peer || row.connection} />
        <span class="muted">${shown(row.connection)}, channel ${row.channel}</span></span>` },
    { label: '', hidden: 'Actions', kind: 'act', cell: (row) => html`<button type="button" class="small" aria-pressed=${why === row.connection}
        aria-label=${`Why is ${shown(row.connection)} held?`} onClick=${() => onWhy(row.connection)}>Why?</button>` },
    { label: 'User', cell: (row) => html`<span class="stack"><${Name}>${row.user}<//><span class="muted no-phone" title=${shown(row.client)}>
        ${shown(row.client)}</span></span>` },
    { label: 'To', phone: false, cell: (row) => (row.exchange === undefined ? '' : html`<${Name}>${exchangeShown(row.exchange)}<//>`) },
    { label: 'Held for', right: true, cell: (row) => seconds(row.held_seconds) },
    { label: 'Waits for', wide: true, cell: (row) => (row.causes ?? []).map((cause, index) => html`<${Cause} key=${index} cause=${cause} />`) },
    { label: 'Parked', right: true, phone: false, cell: (row) => bytes(row.parked_bytes) },
    { label: 'Told by', phone: false, kind: 'wrap', cell: signs },
  ];
  return html`<${Table} label="Held channels" columns=${columns} rows=${held.slice(0, MOST)} rowKey=${heldKey} empty="Nobody is held." />
    ${held.length > MOST && html`<p class="note below">and ${plural(held.length - MOST, 'channel')} more, held for less long; find narrows the list</p>`}`;
}

function signs(row) {
  const rung = row.rung && `${row.rung.name}${row.rung.next ? `, ${row.rung.next} in ${seconds(row.rung.next_in)}` : ''}`;
  const told = [].concat(row.notified_by ?? []).join(', ') || 'not told yet';
  const withheld = row.withheld > 0 && `${plural(row.withheld, 'confirm run')} withheld`;
  return [told, row.paused && 'paused', row.ignores_flow && 'ignores flow', row.spent && `spent: ${row.spent}`, rung, withheld]
    .filter(Boolean).map(shown).join(', ');
}

export function whoHolds(queue, held) {
  return held.filter((each) => (each.causes ?? []).some((cause) => cause.vhost === queue.vhost && cause.name === queue.name));
}

export const toFlow = (connection) => to(['flow'], { why: connection });
