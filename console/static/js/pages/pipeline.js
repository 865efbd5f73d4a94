/** The pipeline that analyses the node's telemetry; it runs elsewhere, and writes reports. */
import { html } from '../lib.js';
import { Empty, Panel } from '../parts/panel.js';

export default function Pipeline() {
  return html`<header class="page-head"><h1>Pipeline</h1><span class="muted">what the telemetry of days says</span></header>
    <${Panel} title="Last report"><${Empty}>The console has no report. The pipeline runs apart from the node:
      <code>penstock pipeline report --telemetry DATA/telemetry --html report.html</code> writes one, as a page to open.<//><//>`;
}
