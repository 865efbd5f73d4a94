/** A queue: its depth over time, who fills it, who drains it, whom it holds. */
import { api, change, may, post } from '../api.js';
import { bytes, count, plural, rate, seconds, short } from '../format.js';
import { html, useState } from '../lib.js';
import { live } from '../live.js';
import { shown } from '../names.js';
import { Chart } from '../parts/chart.js';
import { Dialog, Field, Opening } from '../parts/dialog.js';
import { DepthBar, measureOf, queueState } from '../parts/depth.js';
import { HeldTable, toFlow, whoHolds } from '../parts/held.js';
import { Badge } from '../parts/mark.js';
import { Panel } from '../parts/panel.js';
import { SpanChoice, useSpan } from '../parts/span.js';
import { say } from '../parts/toast.js';
import { usePoll } from '../poll.js';
import { go, route } from '../route.js';
import { StopDialog } from './flow_stops.js';
import { Bindings, Consumers } from './queue_ends.js';
import { Limits } from './queue_limits.js';
import { Messages } from './queue_messages.js';
import { TransferDialog } from './queue_transfer.js';

export default function Queue({ parts: [vhost, name] }) {
  const path = api('queues', vhost, name);
  const queue = usePoll(path, 1);
  const [minutes, span] = useSpan();
  const history = usePoll(`${path}/history?minutes=${minutes}`, 2);
  const { held } = live.use();
  const mine = whoHolds({ vhost, name }, held ?? []);
  const label = `${shown(name)}`;
  return html`<header class="page-head"><h1 class="name">${label}</h1>
      ${queue.data && html`<${Badge} state=${queueState(queue.data)} />`}
      <span class="muted">in ${shown(vhost)}</span>
      <div class="actions"><${Opening} label="Stop its producers …" kind="by-hand" needs=${may('policymaker') ? '' : 'policymaker'}
        dialog=${(close) => html`<${StopDialog} given=${{ vhost, queue: name }} close=${close} />`} /><${Move} ...${{ path, label, queue: queue.data }} /><${Opening} label="Move messages …"
        dialog=${(close) => html`<${TransferDialog} ...${{ vhost, name, label, close }} ready=${queue.data?.messages_ready ?? 0} />`} /><${Purge} ...${{ path, label, queue: queue.data }} /><${Delete} ...${{ path, label, queue: queue.data }} /></div>
    </header>
    <${Panel} title="Now" of=${queue}>${(data) => html`<${Facts} queue=${data} />`}<//>
    <div class="columns">
      <${Panel} title="Depth against its marks" note="shaded: producers held" of=${history}
        actions=${html`<${SpanChoice} />`}>
        ${(data) => html`<${Depth} history=${data} queue=${queue.data ?? {}} />`}<//>
      <${Panel} title="Messages a second" note=${`last ${span}`} of=${history}>${(data) => html`<${Rates} history=${data} />`}<//>
    </div>
    <${Panel} title="Held by this queue" note=${plural(mine.length, 'channel')} of=${{ data: held, error: null }}>
      ${() => html`<${HeldTable} held=${mine} onWhy=${(connection) => { location.hash = toFlow(connection); }} />`}<//>
    <div class="columns">
      <${Consumers} vhost=${vhost} name=${name} queue=${queue} />
      <${Bindings} path=${path} />
    </div>
    <${Limits} vhost=${vhost} name=${name} />
    <${Messages} vhost=${vhost} name=${name} />`;
}

function Facts({ queue }) {
  const flow = queue.flow ?? {};
  const stat = (name) => rate(queue.message_stats?.[`${name}_details`]?.rate);
  const facts = [
    ['Ready', count(queue.messages_ready)], ['Unacked', count(queue.messages_unacknowledged)], ['Size', bytes(queue.message_bytes)],
    ['In', stat('publish')], ['Out', stat('deliver_get')], ['Acked', stat('ack')], ['Consumers', count(queue.consumers)],
    ['Shard', flow.shard ?? '–'], ['Flow epoch', count(flow.flow_epoch)], ['Policy', queue.policy ? shown(queue.policy) : 'none'],
  ];
  if (flow.saturated_for > 0) facts.unshift(['Saturated for', seconds(flow.saturated_for)]);
  return html`<${DepthBar} queue=${queue} /><${Marks} queue=${queue} />
    <dl class="facts">${facts.map(([term, value]) => html`<div><dt>${term}</dt><dd>${value}</dd></div>`)}</dl>`;
}

function Marks({ queue }) {
  const { unit, depth, stop, resume, bound } = measureOf(queue);
  const write = unit === 'bytes' ? bytes : count;
  if (!(stop > 0)) return html`<p class="note below">No limit: this queue stops nobody.</p>`;
  return html`<p class="note below"><strong>${write(depth)}</strong> now, resumes at ${write(resume)}, stops at ${write(stop)}${
    bound > 0 ? `, never beyond ${write(bound)}` : ''}</p>`;
}

function Depth({ history, queue }) {
  const { unit, stop, resume, bound } = measureOf(queue);
  const inCount = unit === 'count';
  const levels = !inCount ? [] : [
    { value: bound, label: `bound ${count(bound)}`, color: '--muted', dash: [2, 3] },
    { value: stop, label: `stop ${count(stop)}`, color: '--held' },
    { value: resume, label: `resume ${count(resume)}`, color: '--flowing', dash: [6, 4] },
  ].filter((level) => level.value > 0);
  const whole = history.ready.map((ready, index) => (ready === null ? null : ready + (history.unacked?.[index] ?? 0)));
  const series = [
    { label: 'messages', values: whole, color: '--text', width: 2 },
    { label: 'ready', values: history.ready, color: '--flowing', fill: true },
  ];
  return html`<${Chart} label="Depth" at=${history.at} series=${series} levels=${levels} shaded=${history.held} write=${short} height=${260} group="queue" />`;
}

function Rates({ history }) {
  const series = [
    { label: 'in', values: history.publish, color: '--flowing', fill: true },
    { label: 'out', values: history.deliver, color: '--text' },
    { label: 'acked', values: history.ack, color: '--muted', dash: [4, 4] },
  ].filter((each) => each.values);
  return html`<${Chart} label="Messages a second" at=${history.at} series=${series} write=${rate} height=${260} group="queue" />`;
}

function Move({ path, label, queue }) {
  const [shard, setShard] = useState('');
  const shards = usePoll(may('administrator') ? '/api/shards' : null, 10);
  const home = queue?.flow?.shard;
  const others = home === undefined ? [] : (shards.data ?? []).map((each) => each.shard).filter((each) => each !== home);
  const target = shard === '' ? others[0] : Number(shard);
  const act = async () => {
    await post(`${path}/move`, { shard: target });
    say(`Moved ${label} to shard ${target}.`);
  };
  const needs = may('administrator') ? '' : 'administrator';
  return others.length === 0 ? null : html`<${Opening} label="Move …" needs=${needs} dialog=${(close) => html`<${Dialog} title=${`Move ${label}`}
    close=${close} act=${act} label=${`Move ${label} to shard ${target}`}>
    <${Field} label="To shard"><select value=${target} onChange=${(event) => setShard(event.target.value)}>
      ${others.map((each) => html`<option value=${each}>${each}</option>`)}</select><//>
    <p>${plural(queue?.messages ?? 0, 'message')} go along while the queue is in use: producers and consumers wait for a moment, nothing is lost or reordered.</p><//>`} />`;
}

function Purge({ path, label, queue }) {
  const act = async () => {
    await change('DELETE', `${path}/contents`);
    say(`Purged ${label}.`);
  };
  return html`<${Opening} label="Purge …" dialog=${(close) => html`<${Dialog} title=${`Purge ${label}`} danger close=${close} act=${act}
    label=${`Purge ${label}`}>
    <p>${plural(queue?.messages_ready ?? 0, 'ready message')} of ${label} are dropped for good. Unacked ones stay with their consumers.</p><//>`} />`;
}

function Delete({ path, label, queue }) {
  const act = async () => {
    await change('DELETE', path);
    say(`Deleted ${label}.`);
    go(['queues'], { vhost: route.get().query.vhost });
  };
  return html`<${Opening} label="Delete …" dialog=${(close) => html`<${Dialog}
    title=${`Delete ${label}`} danger close=${close} act=${act} label=${`Delete ${label}`}>
    <p>The queue goes, with ${plural(queue?.messages ?? 0, 'message')} and its bindings. ${plural(queue?.consumers ?? 0, 'consumer')} lose it.</p><//>`} />`;
}
