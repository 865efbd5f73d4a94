/** Times in which producers were held, as a table. */
import { bytes, clock, count, seconds } from '../format.js';
import { html } from '../lib.js';
import { shown } from '../names.js';
import { QueueLink } from './names.js';
import { Table } from './table.js';

export function IncidentTable({ incidents, short: isShort }) {
  const few = [
    { label: 'Begun', cell: (row) => clock(row.begun) },
    { label: 'Cause', wide: true, cell: cause },
    { label: 'Lasted', right: true, cell: (row) => seconds(row.seconds) },
    { label: 'Stops', right: true, cell: (row) => count(row.stops) },
    { label: 'Victims', phone: false, cell: victims },
  ];
  const more = [
    { label: 'Longest', right: true, phone: false, cell: (row) => seconds(row.longest) },
    { label: 'Peak', right: true, phone: false, cell: (row) => count(row.peak_count) },
    { label: 'Beyond bound', right: true, phone: false, cell: overshoot },
    { label: 'Actions', phone: false, cell: actions },
  ];
  return html`<${Table} label="Incidents" columns=${isShort ? few : [...few, ...more]} rows=${incidents}
    rowKey=${(row) => `${row.begun} ${row.vhost} ${row.queue} ${row.kind}`} empty="No producer has been held yet." />`;
}

function cause(row) {
  return row.queue ? html`<${QueueLink} vhost=${row.vhost} name=${row.queue} />` : html`<span>${shown(row.cause ?? row.kind)}</span>`;
}

function victims(row) {
  const names = [...new Set((row.victims ?? []).map((each) => each.user ?? each.connection ?? each))];
  const text = names.slice(0, 2).map(shown).join(', ') + (names.length > 2 ? ` and ${names.length - 2} more` : '');
  return html`<span title=${names.map(shown).join('\n')}>${text}</span>`;
}

function overshoot(row) {
  return row.overshoot_count ? count(row.overshoot_count) : row.overshoot_bytes ? bytes(row.overshoot_bytes) : '–';
}

function actions(row) {
  return Object.entries(row.actions ?? {}).map(([name, times]) => `${shown(name)} ${count(times)}`).join(', ');
}
