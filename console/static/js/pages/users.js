/** Users and what they may do. */
import { api, change, may, user } from '../api.js';
import { html, useState } from '../lib.js';
import { shown } from '../names.js';
import { Dialog, Field, Opening } from '../parts/dialog.js';
import { Panel } from '../parts/panel.js';
import { Table } from '../parts/table.js';
import { say } from '../parts/toast.js';
import { usePoll } from '../poll.js';

const TAGS = ['administrator', 'monitoring', 'policymaker', 'management'];
const RIGHTS = ['configure', 'write', 'read'];

export default function Users() {
  const users = usePoll('/api/users', 10);
  const permissions = usePoll('/api/permissions', 10);
  const needs = may('administrator') ? '' : 'administrator';
  const add = html`<${Opening} label="New user …" kind="primary" needs=${needs} dialog=${(close) => html`<${NewUser} close=${close} />`} />`;
  const grant = html`<${Opening} label="Set permissions …" needs=${needs} dialog=${(close) => html`<${Grant} close=${close} />`} />`;
  return html`<header class="page-head"><h1>Users</h1><div class="actions">${grant}${add}</div></header>
    <${Panel} title="Users" of=${users}>${(rows) => html`<${Rows} rows=${rows} needs=${needs} />`}<//>
    <${Panel} title="Permissions" note="regular expressions of names" of=${permissions}>${(rows) => html`<${Permissions} rows=${rows} needs=${needs} />`}<//>`;
}

function Rows({ rows, needs }) {
  const columns = [
    { label: 'Name', wide: true, cell: (row) => html`<span class="name">${shown(row.name)}</span>` },
    { label: 'Tags', cell: (row) => [].concat(row.tags).map(shown).join(', ') || 'none' },
    { label: '', hidden: 'Actions', right: true, cell: (row) => row.name !== user.get()?.name && html`<${Remove} row=${row} needs=${needs} />` },
  ];
  return html`<${Table} label="Users" columns=${columns} rows=${rows} rowKey=${(row) => row.name} empty="There are no users of the node's own." />`;
}

function Remove({ row, needs }) {
  const act = async () => {
    await change('DELETE', api('users', row.name));
    say(`Removed user ${shown(row.name)}.`);
  };
  return html`<${Opening} label="Remove …" kind="small" needs=${needs} dialog=${(close) => html`<${Dialog} title=${`Remove user ${shown(row.name)}`}
    danger close=${close} act=${act} label=${`Remove user ${shown(row.name)}`}><p>The user can log in no more; its permissions go.</p><//>`} />`;
}

function NewUser({ close }) {
  const [given, setGiven] = useState({ name: '', password: '', tags: [] });
  const set = (field) => (event) => setGiven({ ...given, [field]: event.target.value });
  const toggle = (tag) => setGiven({ ...given, tags: given.tags.includes(tag) ? given.tags.filter((each) => each !== tag) : [...given.tags, tag] });
  const act = async () => {
    await change('PUT', api('users', given.name), { password: given.password, tags: given.tags.join(',') });
    say(`User ${shown(given.name)} can log in.`);
  };
  return html`<${Dialog} title="New user" close=${close} act=${act} ready=${given.name && given.password} label="Add the user">
    <${Field} label="Name"><input value=${given.name} autocomplete="off" required onInput=${set('name')} /><//>
    <${Field} label="Password"><input type="password" autocomplete="new-password" value=${given.password} required onInput=${set('password')} /><//>
    <fieldset class="choice"><legend>Tags</legend>${TAGS.map((tag) => html`<label><input type="checkbox" checked=${given.tags.includes(tag)}
      onChange=${() => toggle(tag)} /><span>${tag}</span></label>`)}</fieldset>
  <//>`;
}

function Permissions({ rows, needs }) {
  const columns = [
    { label: 'User', wide: true, cell: (row) => html`<span class="name">${shown(row.user)}</span>` },
    { label: 'Vhost', cell: (row) => shown(row.vhost) },
    ...RIGHTS.map((right) => ({ label: right, cell: (row) => html`<span class="name">${shown(row[right])}</span>` })),
    { label: '', hidden: 'Actions', right: true, cell: (row) => html`<${Revoke} row=${row} needs=${needs} />` },
  ];
  return html`<${Table} label="Permissions" columns=${columns} rows=${rows} rowKey=${(row) => `${row.user} ${row.vhost}`} empty="Nobody may do anything." />`;
}

function Revoke({ row, needs }) {
  const act = async () => {
    await change('DELETE', api('permissions', row.vhost, row.user));
    say(`Took the permissions of ${shown(row.user)} in ${shown(row.vhost)}.`);
  };
  return html`<${Opening} label="Take …" kind="small" needs=${needs} dialog=${(close) => html`<${Dialog}
    title=${`Take the permissions of ${shown(row.user)}`} danger close=${close} act=${act} label="Take the permissions">
    <p>${shown(row.user)} can use ${shown(row.vhost)} no more.</p><//>`} />`;
}

function Grant({ close }) {
  const [given, setGiven] = useState({ user: '', vhost: '/', configure: '.*', write: '.*', read: '.*' });
  const set = (field) => (event) => setGiven({ ...given, [field]: event.target.value });
  const { user: name, vhost, ...rights } = given;
  const act = async () => {
    await change('PUT', api('permissions', vhost, name), rights);
    say(`Set the permissions of ${shown(name)} in ${shown(vhost)}.`);
  };
  return html`<${Dialog} title="Set permissions" close=${close} act=${act} ready=${name && vhost} label="Set the permissions">
    <div class="fields">${['user', 'vhost', ...RIGHTS].map(
      (field) => html`<${Field} label=${field}><input value=${given[field]} spellcheck="false" onInput=${set(field)} /><//>`)}</div>
  <//>`;
}
