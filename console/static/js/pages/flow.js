/** Flow: who is held, by what, why, and what an operator does about it. */
import { may, query } from '../api.js';
import { plural } from '../format.js';
import { useKey } from '../keys.js';
import { html, useState } from '../lib.js';
import { live } from '../live.js';
import { Act } from '../parts/dialog.js';
import { HeldTable } from '../parts/held.js';
import { Find } from '../parts/listing.js';
import { Panel } from '../parts/panel.js';
import { usePoll } from '../poll.js';
import { choose, route } from '../route.js';
import { Graph } from './flow_graph.js';
import { Ledger } from './flow_ledger.js';
import { StartDialog, StopDialog, Stops } from './flow_stops.js';
import { Why } from './flow_why.js';

const narrow = matchMedia('(max-width: 639px)');

export default function Flow() {
  const { query: chosen } = route.use();
  const { held, stops, error, stopsError, at } = live.use();
  const [dialog, setDialog] = useState(null);
  const view = chosen.view ?? (narrow.matches ? 'list' : 'graph');
  const needs = may('administrator') ? '' : 'administrator';
  const seen = chosenOf(held ?? [], chosen);
  const why = chosen.why ?? seen[0]?.connection;
  const stop = () => !needs && setDialog({ stop: {} });
  useKey('s', stop);
  return html`<header class="page-head"><h1>Flow</h1>
      <${Views} view=${view} />
      <${Find} name="find" label="Find" />
      <div class="actions"><${Act} label="Stop producers …" kind="by-hand" needs=${needs} act=${stop} /></div>
    </header>
    ${view === 'graph' && html`<${Picture} vhost=${chosen.vhost} find=${chosen.find} by=${chosen.by} />`}
    ${why && html`<${Why} connection=${why} />`}
    <${Panel} title="Held channels" note=${held && `${plural(seen.length, 'channel')}`} of=${{ data: held, error, at }}>
      ${() => html`<${HeldTable} held=${seen} why=${why} onWhy=${(connection) => choose({ why: connection })} />`}<//>
    <${Panel} title="Stops by hand" of=${{ data: stops, error: stopsError, at }}>
      ${(rows) => html`<${Stops} stops=${rows} needs=${needs} start=${(each) => setDialog({ start: each })} />`}<//>
    <${Ledger} by=${chosen.ledger ?? 'user'} />
    ${dialog?.stop && html`<${StopDialog} given=${chosen} close=${() => setDialog(null)} />`}
    ${dialog?.start && html`<${StartDialog} stops=${dialog.start} held=${held ?? []} close=${() => setDialog(null)} />`}`;
}

function chosenOf(held, { vhost, find = '' }) {
  const part = find.toLowerCase();
  const text = (row) => [row.connection, row.user, row.client, row.exchange, ...(row.causes ?? []).map((each) => each.text)].join(' ');
  return held.filter((row) => (!vhost || row.vhost === vhost) && (!part || text(row).toLowerCase().includes(part)));
}

function Views({ view }) {
  return html`<div class="tabs" role="group" aria-label="View">
    ${[['graph', 'Graph'], ['list', 'List']].map(
      ([name, text]) => html`<button type="button" aria-pressed=${view === name} onClick=${() => choose({ view: name })}>${text}</button>`,
    )}
  </div>`;
}

function Picture({ vhost, find, by = 'user' }) {
  const [paused, setPaused] = useState(false);
  const graph = usePoll(paused ? null : query('/api/flow/graph', { vhost, by }), 1);
  const [last, setLast] = useState(graph);
  if (graph.data && graph.data !== last.data) setLast(graph);
  useKey('p', () => setPaused(!paused));
  const sides = ['user', 'client'].map(
    (each) => html`<button type="button" aria-pressed=${by === each} onClick=${() => choose({ by: each })}>by ${each}</button>`,
  );
  const actions = html`<div class="tabs" role="group" aria-label="Producers">${sides}</div>
    <button type="button" class="small" aria-pressed=${paused} onClick=${() => setPaused(!paused)}>${paused ? 'Go on' : 'Pause'}</button>`;
  const of = paused ? { ...last, error: null } : graph.data ? graph : { ...last, error: graph.error };

  return html`<${Panel} title="Who waits for whom" note="lit: what waits, and for what" actions=${actions} of=${of}>
    ${(data) => html`<${Graph} nodes=${data.nodes} edges=${data.edges} find=${find} />`}<//>`;
}
