/** Messages that go to another queue, or dead letters that go back: request by request, so that it can be stopped. */
import { api, change } from '../api.js';
import { count, plural } from '../format.js';
import { html, useEffect, useRef, useState } from '../lib.js';
import { Choice, Dialog, Field } from '../parts/dialog.js';
import { say } from '../parts/toast.js';

const BATCH = 100;
/** A request ends after five seconds, but may wait for room, and for a confirm, on top. */
const PATIENCE_MS = 30_000;
const ALL = 'as fast as it goes';
const RATES = [['', ALL], ['10', '10 a second'], ['100', '100 a second']];

export function TransferDialog({ vhost, name, label, ready, close }) {
  const [target, setTarget] = useState('');
  const [way, setWay] = useState('back');
  const [rate, setRate] = useState('');
  const [done, setDone] = useState(null);
  const open = useRef(true);
  useEffect(() => () => { open.current = false; }, []);
  const back = way === 'back';
  const act = async () => {
    const total = await transfer(api('queues', vhost, name), { target: back ? null : target, rate: Number(rate), most: ready },
      () => open.current, setDone);
    say(`${back ? 'Redriven' : 'Moved'}: ${plural(total.moved, 'message')}${total.kept ? `; ${count(total.kept)} could not go and stay` : ''}.`);
  };
  return html`<${Dialog} title=${`Move messages of ${label}`} close=${close} act=${act} ready=${ready > 0 && (back || target.trim() !== '')}
    label=${back ? 'Redrive' : 'Move messages'}>
    <${Choice} name="way" legend="Where to" value=${way} choose=${setWay}
      options=${[['back', 'back where they came from'], ['queue', 'to another queue']]} />
    ${!back && html`<${Field} label="Queue"><input value=${target} spellcheck="false" onInput=${(event) => setTarget(event.target.value)} /><//>`}
    <${Field} label="How fast"><select value=${rate} onChange=${(event) => setRate(event.target.value)}>
      ${RATES.map(([value, text]) => html`<option value=${value}>${text}</option>`)}</select><//>
    <p>${plural(ready, 'ready message')} at most. Each leaves this queue once the other has confirmed it; it stops where there is no room,
      and when this dialog is closed.</p>
    ${done && html`<p role="status"><strong>${count(done.moved)}</strong> moved${done.kept ? `, ${count(done.kept)} kept` : ''}</p>`}
  <//>`;
}

/** Move up to `most` messages, until none is left, none can go, or nobody wants it any more: {moved, kept}. Error where there is no room. */
async function transfer(path, { target, rate, most }, wanted, report) {
  const total = { moved: 0, kept: 0 };
  const request = target === null ? `${path}/redrive` : `${path}/move-messages`;
  while (wanted() && total.moved + total.kept < most) {
    const began = performance.now();
    const size = Math.min(rate || BATCH, BATCH, most - total.moved);
    const answer = await change('POST', request, { count: size, ...(target === null ? {} : { target }) }, PATIENCE_MS);
    total.moved += answer.moved;
    total.kept = answer.kept;
    report({ ...total });
    if (answer.stopped) throw new Error(`${count(total.moved)} moved, then: ${answer.stopped}`);
    if (answer.moved === 0) break;
    if (rate) await pause(answer.moved / rate * 1000 - (performance.now() - began));
  }
  return total;
}

function pause(milliseconds) {
  return new Promise((resolve) => { setTimeout(resolve, Math.max(milliseconds, 0)); });
}
