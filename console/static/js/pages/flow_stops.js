/** Stops by hand: made with a dry run, taken back by number. */
import { change, post, query } from '../api.js';
import { clock, count, plural, rate } from '../format.js';
import { html, useEffect, useState } from '../lib.js';
import { exchangeShown, shown } from '../names.js';
import { Choice, Dialog, Field, Act } from '../parts/dialog.js';
import { causesOf } from '../parts/held.js';
import { Trouble } from '../parts/panel.js';
import { Table } from '../parts/table.js';
import { say } from '../parts/toast.js';

const SELECTORS = [
  ['vhost', 'Vhost'], ['exchange', 'Exchange'], ['key', 'Routing key', 'us.# matches as a topic does'], ['queue', 'Queue'],
  ['user', 'User'], ['connection', 'Connection'],
];
const LENGTHS = [[600, '10 min'], [3600, '1 h'], [null, 'until taken back']];
const ALL = 'STOP ALL';
const TYPED_MS = 300;

/** What a stop concerns, in words. */
export function scope(stop) {
  const parts = SELECTORS.filter(([name]) => stop[name] !== null && stop[name] !== undefined && (stop[name] !== '' || name === 'exchange'));
  if (!parts.length) return 'all producers';
  return parts.map(([name]) => `${name} ${name === 'exchange' ? exchangeShown(stop[name]) : shown(stop[name])}`).join(', ');
}

export function Stops({ stops, needs, start }) {
  const columns = [
    { label: 'No.', cell: (stop) => html`<strong>${stop.number}</strong>` },
    { label: 'Stopped', wide: true, cell: (stop) => scope(stop) },
    { label: 'By', cell: (stop) => shown(stop.author) },
    { label: 'Reason', cell: (stop) => shown(stop.reason) },
    { label: 'Since', phone: false, cell: (stop) => clock(stop.since) },
    { label: 'Until', cell: (stop) => (stop.until ? clock(stop.until) : 'taken back') },
    { label: '', hidden: 'Actions', right: true, cell: (stop) => html`<${Act} kind="small start" label=${`Start ${stop.number} …`} needs=${needs} act=${() => start([stop])} />` },
  ];
  return html`<${Table} label="Stops by hand" columns=${columns} rows=${stops} rowKey=${(stop) => stop.number}
      empty="Nobody has been stopped by hand." />
    ${stops.length > 1 && html`<p class="below"><${Act} label="Start all …" needs=${needs} act=${() => start(stops)} /></p>`}`;
}

export function StopDialog({ given, close }) {
  const [chosen, setChosen] = useState({ vhost: '/', ...pick(given), all: false, reason: '', seconds: 600 });
  const [word, setWord] = useState('');
  const body = bodyOf(chosen);
  const isChosen = chosen.all || SELECTORS.some(([name]) => name !== 'vhost' && body[name] !== undefined);
  const trial = useTrial(isChosen ? body : null);
  const set = (name) => (event) => setChosen({ ...chosen, [name]: event.target.value });
  const ready = isChosen && chosen.reason.trim() !== '' && (!chosen.all || word === ALL);
  const act = async () => {
    const stop = await change('POST', '/api/flow/stops', body);
    say(`Stop ${stop.number}: ${scope(stop)}.`);
  };
  const label = `Stop ${chosen.all ? 'all producers' : isChosen ? `producers of ${scope(body)}` : 'producers'}`;
  return html`<${Dialog} title="Stop producers" wide close=${close} act=${act} danger ready=${ready} label=${label}>
    <${Choice} name="all" legend="Stop" value=${chosen.all} options=${[[false, 'publishes that match all of these'], [true, 'all publishes']]}
      choose=${(all) => setChosen({ ...chosen, all })} />
    ${!chosen.all && html`<div class="fields">${SELECTORS.map(
      ([name, text, hint]) => html`<${Field} label=${text} hint=${hint}><input name=${name} autofocus=${name === 'exchange'} value=${chosen[name] ?? ''} spellcheck="false" onInput=${set(name)} /><//>`,
    )}</div>`}
    <${Choice} name="for" legend="For" value=${chosen.seconds} options=${LENGTHS} choose=${(seconds) => setChosen({ ...chosen, seconds })} />
    <${Field} label="Reason, which clients are told"><input name="reason" value=${chosen.reason} maxlength="200" required placeholder="db move" onInput=${set('reason')} /><//>
    ${chosen.all && html`<${Field} label=${`Type ${ALL}`}><input name="word" value=${word} onInput=${(event) => setWord(event.target.value)} /><//>`}
    <${Trial} trial=${trial} chosen=${chosen} isChosen=${isChosen} />
  <//>`;
}

function pick(given) {
  const known = SELECTORS.map(([name]) => [name, given[name]]).filter(([, value]) => value);
  return Object.fromEntries(known);
}

function bodyOf(chosen) {
  const body = { reason: chosen.reason.trim() };
  if (chosen.seconds) body.seconds = chosen.seconds;
  if (chosen.all) return { ...body, all: true };
  for (const [name] of SELECTORS) if (chosen[name]) body[name] = chosen[name];
  return body;
}

/** What a stop would do now, asked anew when the words have been still for a moment. */
function useTrial(body) {
  const [found, setFound] = useState({});
  const asked = body && JSON.stringify({ ...body, reason: 'dry run' });
  useEffect(() => {
    setFound({});
    if (!asked) return undefined;
    const ended = new AbortController();
    const ask = () => post('/api/flow/stops/try', JSON.parse(asked), ended.signal).then(
      (data) => setFound({ data }),
      (error) => !ended.signal.aborted && setFound({ error }),
    );
    const timer = setTimeout(ask, TYPED_MS);
    return () => {
      clearTimeout(timer);
      ended.abort();
    };
  }, [asked]);
  return found;
}

function Trial({ trial, chosen, isChosen }) {
  if (!isChosen) return html`<p class="outcome muted">Say what is to be stopped.</p>`;
  const ends = chosen.seconds ? `Ends ${clock(Date.now() + chosen.seconds * 1000)}.` : 'Stays until it is taken back.';
  return html`<div class="outcome" aria-live="polite">
    ${trial.error && html`<${Trouble} error=${trial.error} />`}
    <strong>Dry run: ${trial.data ? `${plural(trial.data.channels, 'channel')}, ${rate(trial.data.per_second)} now` : '…'}</strong>
    ${(trial.data?.rows ?? []).slice(0, 5).map((row) => html`<span class="name">${shown(row.connection)} ${row.user ? `(${shown(row.user)})` : ''}</span>`)}
    ${trial.data?.rows?.length > 5 && html`<span class="muted">and ${count(trial.data.rows.length - 5)} more</span>`}
    <span class="muted">Their publishes wait. Consumers go on, nothing is lost.
      Clients are told: ${shown(chosen.reason) || 'the reason'}. ${ends}</span>
  </div>`;
}

export function StartDialog({ stops, held, close }) {
  const numbers = stops.map((each) => each.number);
  const isOnly = (row) => row.causes?.every((cause) => cause.kind === 'stop' && numbers.includes(cause.number));
  const touched = held.filter((row) => row.causes?.some((cause) => cause.kind === 'stop' && numbers.includes(cause.number)));
  const staying = touched.filter((row) => !isOnly(row));
  const others = causesOf(staying).filter((cause) => !(cause.kind === 'stop' && numbers.includes(cause.number)));
  const path = numbers.length === 1 ? `/api/flow/stops/${numbers[0]}` : query('/api/flow/stops', { numbers: numbers.join(',') });
  const name = numbers.length === 1 ? `stop ${numbers[0]}` : `stops ${numbers.join(', ')}`;
  const act = async () => {
    await change('DELETE', path);
    say(`Took back ${name}.`);
  };
  return html`<${Dialog} title="Start producers" close=${close} act=${act} label=${`Take back ${name}`}>
    <p>Takes back ${name}:</p>
    <ul class="plain-list">${stops.map((stop) => html`<li><strong>${stop.number}</strong> ${scope(stop)}
      <span class="muted"> by ${shown(stop.author)}: ${shown(stop.reason)}</span></li>`)}</ul>
    <p class="outcome">${plural(touched.length - staying.length, 'held channel')} may go on.
      ${staying.length ? ` ${plural(staying.length, 'channel')} stay held: ${others.map((cause) => shown(cause.text)).join('; ')}.` : ''}</p>
  <//>`;
}
