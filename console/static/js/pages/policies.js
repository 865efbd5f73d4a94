/** Policies: settings by the names of queues and exchanges. */
import { api, change, may } from '../api.js';
import { html, useState } from '../lib.js';
import { shown } from '../names.js';
import { Act, Dialog, Field, Opening } from '../parts/dialog.js';
import { Panel, Trouble } from '../parts/panel.js';
import { Table } from '../parts/table.js';
import { say } from '../parts/toast.js';
import { usePoll } from '../poll.js';
import { route } from '../route.js';
import { PolicyTrial } from './policy_trial.js';
import { usePolicyTrial } from './queue_limits.js';

const APPLY_TO = ['queues', 'exchanges', 'all', 'routing_keys', 'users', 'vhosts', 'node'];
const NEW = { name: '', vhost: '/', pattern: '', priority: 0, definition: { 'max-length': 10000, overflow: 'flow' }, 'apply-to': 'queues' };

export default function Policies() {
  const { query } = route.use();
  const policies = usePoll(query.vhost ? api('policies', query.vhost) : '/api/policies', 5);
  const [edited, setEdited] = useState(null);
  const needs = may('policymaker') ? '' : 'policymaker';
  return html`<header class="page-head"><h1>Policies</h1>
      <div class="actions"><${Act} label="New policy …" kind="primary" needs=${needs} act=${() => setEdited({ ...NEW, vhost: query.vhost ?? '/' })} /></div></header>
    <${Panel} title="Policies" note="the highest priority that matches wins" of=${policies}>
      ${(rows) => html`<${Rows} rows=${rows} needs=${needs} edit=${setEdited} />`}<//>
    ${edited && html`<${Edit} policy=${edited} close=${() => setEdited(null)} />`}`;
}

function Rows({ rows, needs, edit }) {
  const columns = [
    { label: 'Name', wide: true, cell: (row) => html`<span class="name">${shown(row.name)}</span>` },
    { label: 'Vhost', cell: (row) => shown(row.vhost) },
    { label: 'Pattern', cell: (row) => html`<span class="name">${shown(row.pattern)}</span>` },
    { label: 'Of', cell: (row) => row['apply-to'] },
    { label: 'Priority', right: true, cell: (row) => row.priority },
    { label: 'Definition', kind: 'wrap', cell: (row) => html`<span class="name">${shown(JSON.stringify(row.definition))}</span>` },
    { label: '', hidden: 'Actions', cell: (row) => html`<${Act} label="Edit …" kind="small" needs=${needs} act=${() => edit(row)} /> <${Remove} row=${row} needs=${needs} />` },
  ];
  return html`<${Table} label="Policies" columns=${columns} rows=${rows} rowKey=${(row) => `${row.vhost} ${row.name}`} empty="There are no policies." />`;
}

function Remove({ row, needs }) {
  const act = async () => {
    await change('DELETE', api('policies', row.vhost, row.name));
    say(`Removed policy ${shown(row.name)}.`);
  };
  return html`<${Opening} label="Remove …" kind="small" needs=${needs} dialog=${(close) => html`<${Dialog} title=${`Remove policy ${shown(row.name)}`}
    danger close=${close} act=${act} label=${`Remove policy ${shown(row.name)}`}>
    <p>Matching ${row['apply-to']} follow the next policy that matches them, or their own arguments.</p><//>`} />`;
}

function Edit({ policy, close }) {
  const [given, setGiven] = useState({ ...policy, definition: JSON.stringify(policy.definition, null, 2) });
  const set = (field) => (event) => setGiven({ ...given, [field]: event.target.value });
  const { definition, problem } = read(given.definition);
  const isReady = !problem && given.name !== '' && Number.isInteger(Number(given.priority));
  const body = { pattern: given.pattern, definition, priority: Number(given.priority) };
  const trial = usePolicyTrial(isReady ? { ...body, vhost: given.vhost, name: given.name, apply_to: given['apply-to'], isReady } : null);
  const act = async () => {
    await change('PUT', api('policies', given.vhost, given.name), { ...body, 'apply-to': given['apply-to'] });
    say(`Applied policy ${shown(given.name)}.`);
  };
  return html`<${Dialog} title=${policy.name ? `Policy ${shown(policy.name)}` : 'New policy'} wide close=${close} act=${act} ready=${isReady} label="Apply">
    <div class="fields">
      <${Field} label="Name"><input value=${given.name} readonly=${policy.name !== ''} required onInput=${set('name')} /><//>
      <${Field} label="Vhost"><input value=${given.vhost} readonly=${policy.name !== ''} required onInput=${set('vhost')} /><//>
      <${Field} label="Pattern of names"><input value=${given.pattern} spellcheck="false" onInput=${set('pattern')} /><//>
      <${Field} label="Of"><select value=${given['apply-to']} onChange=${set('apply-to')}>${APPLY_TO.map((each) => html`<option value=${each}>${each}</option>`)}</select><//>
      <${Field} label="Priority"><input inputmode="numeric" value=${given.priority} onInput=${set('priority')} /><//>
    </div>
    <${Field} label="Definition, in JSON"><textarea rows="6" spellcheck="false" value=${given.definition} onInput=${set('definition')}></textarea><//>
    ${problem && html`<p class="trouble" role="status">${problem}</p>`}
    ${trial.error && html`<${Trouble} error=${trial.error} />`}
    ${trial.data && html`<${PolicyTrial} trial=${trial.data} />`}
  <//>`;
}

function read(text) {
  try {
    const definition = JSON.parse(text);
    const isObject = definition !== null && typeof definition === 'object' && !Array.isArray(definition);
    return isObject ? { definition } : { problem: 'The definition has to be an object.' };
  } catch (error) {
    return { problem: `The definition is no JSON: ${error.message}.` };
  }
}
