/** Messages of a queue: look at some, publish one. */
import { api, change } from '../api.js';
import { bytes, plural } from '../format.js';
import { html, useState } from '../lib.js';
import { exchangeShown, shown } from '../names.js';
import { Act, Field } from '../parts/dialog.js';
import { Empty, Panel } from '../parts/panel.js';
import { attempt } from '../parts/toast.js';
import { argumentsOf } from './queue_ends.js';

const SHOWN_MOST = 50_000;

export function Messages({ vhost, name }) {
  return html`<div class="columns"><${Get} vhost=${vhost} name=${name} /><${Publish} vhost=${vhost} exchange="" routingKey=${name} /></div>`;
}

function Get({ vhost, name }) {
  const [found, setFound] = useState(null);
  const [number, setNumber] = useState('1');
  const get = () => attempt(async () => {
    const body = { count: Number(number) || 1, ackmode: 'ack_requeue_true', encoding: 'auto', truncate: SHOWN_MOST };
    const messages = await change('POST', `${api('queues', vhost, name)}/get`, body);
    setFound(messages);
    return messages;
  }, (messages) => `${plural(messages.length, 'message')}, put back.`);
  return html`<${Panel} title="Look at messages" note="they are put back, marked as redelivered">
    <div class="line"><${Field} label="Messages"><input inputmode="numeric" value=${number} onInput=${(event) => setNumber(event.target.value)} /><//>
      <${Act} label="Get and put back" act=${get} /></div>
    ${found && (found.length ? found.map((message) => html`<${Message} message=${message} />`) : html`<${Empty}>The queue has no ready message.<//>`)}
  <//>`;
}

function Message({ message }) {
  return html`<article class="message">
    <p class="note">${exchangeShown(message.exchange)} / <span class="name">${shown(message.routing_key)}</span>
      · ${bytes(message.payload_bytes)}${message.redelivered ? ' · redelivered' : ''}</p>
    ${argumentsOf(message.properties)}
    <pre class="body" tabindex="0">${message.payload_encoding === 'base64' ? 'base64: ' : ''}${shownText(message.payload)}</pre>
  </article>`;
}

/** Text keeps its lines; what else is hidden is escaped. */
function shownText(text) {
  return String(text).split(/\r?\n/).map((line) => line.split('\t').map(shown).join('\t')).join('\n');
}

export function Publish({ vhost, exchange, routingKey = '' }) {
  const [key, setKey] = useState(routingKey);
  const [payload, setPayload] = useState('');
  const [persistent, setPersistent] = useState(true);
  const publish = () => attempt(
    () => change('POST', `${api('exchanges', vhost, exchange || 'amq.default')}/publish`, {
      routing_key: key, payload, payload_encoding: 'string', properties: { delivery_mode: persistent ? 2 : 1 },
    }),
    (answer) => (answer?.routed ? 'Published, and routed.' : 'Published; no queue took it.'),
  );
  return html`<${Panel} title="Publish a message" note=${`to exchange ${exchangeShown(exchange)}`}>
    <${Field} label="Routing key"><input value=${key} spellcheck="false" onInput=${(event) => setKey(event.target.value)} /><//>
    <${Field} label="Body"><textarea value=${payload} onInput=${(event) => setPayload(event.target.value)}></textarea><//>
    <div class="line"><label class="check"><input type="checkbox" checked=${persistent} onChange=${(event) => setPersistent(event.target.checked)} /> Persistent</label>
      <${Act} label="Publish" act=${publish} /></div>
  <//>`;
}
