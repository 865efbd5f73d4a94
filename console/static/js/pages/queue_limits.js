/** The limits of a queue: which hold, where they come from, and others, tried before they are applied. */
import { api, change, may, post } from '../api.js';
import { bytes, count, plural } from '../format.js';
import { html, useEffect, useState } from '../lib.js';
import { shown } from '../names.js';
import { Act, Dialog, Field } from '../parts/dialog.js';
import { Panel, Trouble } from '../parts/panel.js';
import { Table } from '../parts/table.js';
import { say } from '../parts/toast.js';
import { usePoll } from '../poll.js';
import { PolicyTrial } from './policy_trial.js';

const SPECIAL = /[.*+?^${}()|[\]\\]/g;
const NUMBERS = [['max-length', 'Messages at most'], ['max-length-bytes', 'Bytes at most']];
const OVERFLOWS = ['flow', 'spill', 'drop-head', 'reject-publish', 'reject-publish-dlx'];

export function Limits({ vhost, name }) {
  const limits = usePoll(api('flow', 'limits', vhost, name), 5);
  const [open, setOpen] = useState(false);
  const needs = may('policymaker') ? '' : 'policymaker';
  const columns = [
    { label: 'Setting', cell: (row) => html`<strong>${shown(row.setting)}</strong>` },
    { label: 'Value', cell: (row) => shown(row.value) },
    { label: 'From', wide: true, cell: (row) => shown(row.source) },
  ];
  return html`<${Panel} title="Limits, and where they come from" of=${limits}
      actions=${html`<${Act} label="Change limits …" needs=${needs} act=${() => setOpen(true)} />`}>
      ${(data) => html`<${Table} label="Limits" columns=${columns} rows=${data.settings ?? []} rowKey=${(row) => row.setting} empty="No limit applies." />
        ${(data.shared ?? []).map((each) => html`<p class="note below">${shown(sharedText(each))}</p>`)}
        ${(data.bindings ?? []).map((each) => html`<p class="note below">${shown(bindingText(each))}</p>`)}`}<//>
    ${open && html`<${Change} vhost=${vhost} name=${name} close=${() => setOpen(false)} />`}`;
}

function sharedText(limit) {
  const marks = [limit.stop_count && `${count(limit.stop_count)} messages`, limit.stop_bytes && bytes(limit.stop_bytes)];
  const whose = limit.policy ? `, by policy ${limit.policy}` : '';
  return `Shares ${limit.limit} (${limit.how}): stops at ${marks.filter(Boolean).join(' or ')}${whose}.`;
}

function bindingText(binding) {
  const number = binding.count > 1 ? `${count(binding.count)} bindings` : 'A binding';
  const maker = binding.made_by ? `, made by ${binding.made_by}` : '';
  const from = `${number} from exchange ${binding.exchange || '(default)'} to ${binding.leads_to}${maker}`;
  return binding.stops_producers ? `${from}: may stop the producers there.` : `${from}: does not stop the producers there, ${binding.why}.`;
}

function Change({ vhost, name, close }) {
  const [given, setGiven] = useState({ overflow: 'flow', priority: '10', policy: `limits of ${name}` });
  const set = (field) => (event) => setGiven({ ...given, [field]: event.target.value });
  const policy = policyOf(vhost, name, given);
  const trial = usePolicyTrial(policy.isReady ? policy : null);
  const act = async () => {
    await change('PUT', api('policies', vhost, policy.name), {
      pattern: policy.pattern, definition: policy.definition, priority: policy.priority, 'apply-to': policy.apply_to,
    });
    say(`Applied policy ${shown(policy.name)}.`);
  };
  const touched = trial.data?.queues?.length;
  return html`<${Dialog} title=${`Limits of ${shown(name)}`} wide close=${close} act=${act} ready=${policy.isReady}
    label=${`Apply to ${touched === undefined ? 'the queue' : plural(touched, 'queue')}`}>
    <p class="muted">Sets a policy for this queue alone. A policy of higher priority would win.</p>
    <div class="fields">
      ${NUMBERS.map(([field, label]) => html`<${Field} label=${label}><input inputmode="numeric" name=${field} value=${given[field] ?? ''} onInput=${set(field)} /><//>`)}
      <${Field} label="At the limit"><select value=${given.overflow} onChange=${set('overflow')}>
        ${OVERFLOWS.map((each) => html`<option value=${each}>${each}</option>`)}</select><//>
      <${Field} label="Priority"><input inputmode="numeric" value=${given.priority} onInput=${set('priority')} /><//>
    </div>
    <${Field} label="Name of the policy"><input value=${given.policy} onInput=${set('policy')} /><//>
    ${trial.error && html`<${Trouble} error=${trial.error} />`}
    ${trial.data && html`<${PolicyTrial} trial=${trial.data} />`}
  <//>`;
}

function policyOf(vhost, name, given) {
  const definition = {};
  for (const [field] of NUMBERS) if (given[field]?.trim()) definition[field] = limitOf(given[field].trim());
  const isReady = Object.keys(definition).length > 0 && given.policy !== '' && Number.isInteger(Number(given.priority));
  definition.overflow = given.overflow;
  const pattern = `^${name.replace(SPECIAL, '\\$&')}$`;
  return { vhost, name: given.policy, pattern, definition, priority: Number(given.priority), apply_to: 'queues', isReady };
}

/** A number, or a size with its unit, which the node reads. */
function limitOf(text) {
  return /^\d+$/.test(text) ? Number(text) : text;
}

/** What a policy would change, asked when the fields have been still for a moment. */
export function usePolicyTrial(policy) {
  const [found, setFound] = useState({});
  const asked = policy ? JSON.stringify({ ...policy, isReady: undefined }) : '';
  useEffect(() => {
    setFound({});
    if (!asked) return undefined;
    const ended = new AbortController();
    const timer = setTimeout(() => post('/api/flow/limits/try', JSON.parse(asked), ended.signal).then(
      (data) => setFound({ data }),
      (error) => !ended.signal.aborted && setFound({ error }),
    ), 400);
    return () => {
      clearTimeout(timer);
      ended.abort();
    };
  }, [asked]);
  return found;
}
