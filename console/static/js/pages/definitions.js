/** Definitions: users, vhosts, queues, exchanges, bindings and policies in one file. */
import { api, change, get, may } from '../api.js';
import { plural } from '../format.js';
import { html, useRef, useState } from '../lib.js';
import { Act, Dialog } from '../parts/dialog.js';
import { Panel } from '../parts/panel.js';
import { attempt, say } from '../parts/toast.js';
import { route } from '../route.js';

const KINDS = ['vhosts', 'users', 'permissions', 'policies', 'queues', 'exchanges', 'bindings'];

export default function Definitions() {
  const { query } = route.use();
  const path = query.vhost ? api('definitions', query.vhost) : '/api/definitions';
  const needs = may('administrator') ? '' : 'administrator';
  const [read, setRead] = useState(null);
  const input = useRef();
  const choose = () => attempt(async () => {
    const [file] = input.current.files;
    input.current.value = '';
    setRead({ name: file.name, definitions: JSON.parse(await file.text()) });
    return file;
  }, (file) => `Read ${file.name}.`);
  return html`<header class="page-head"><h1>Definitions</h1><span class="muted">what the node keeps, without messages</span></header>
    <div class="columns">
      <${Panel} title="Download"><p class="muted">All users, vhosts, permissions, policies, queues, exchanges and bindings, in RabbitMQ's format.
        Passwords are hashes.</p><div class="line"><${Act} label="Download definitions" kind="primary" needs=${needs} act=${() => download(path)} /></div><//>
      <${Panel} title="Upload"><p class="muted">What is in the file is added, or replaces what has the same name. Nothing is removed.</p>
        <div class="line"><input ref=${input} type="file" accept="application/json,.json" class="unseen" tabindex="-1" aria-label="File with definitions" onChange=${choose} />
        <${Act} label="Choose a file …" needs=${needs} act=${() => input.current.click()} /></div><//>
    </div>
    ${read && html`<${Upload} ...${read} path=${path} close=${() => setRead(null)} />`}`;
}

async function download(path) {
  await attempt(async () => {
    const definitions = await get(path);
    const link = document.createElement('a');
    link.href = URL.createObjectURL(new Blob([JSON.stringify(definitions, null, 2)], { type: 'application/json' }));
    link.download = 'definitions.json';
    link.click();
    URL.revokeObjectURL(link.href);
  }, 'Downloaded definitions.json.');
}

function Upload({ name, definitions, path, close }) {
  const parts = KINDS.filter((kind) => definitions[kind]?.length).map((kind) => plural(definitions[kind].length, kind.replace(/ies$/, 'y').replace(/s$/, ''), kind));
  const act = async () => {
    await change('POST', path, definitions);
    say(`Uploaded ${name}.`);
  };
  return html`<${Dialog} title=${`Upload ${name}`} close=${close} act=${act} ready=${parts.length > 0} label="Upload definitions">
    <p class="outcome">${parts.length ? parts.join(', ') : 'The file has no definitions.'}</p>
  <//>`;
}
