/** The pipeline that analyses the node's telemetry; it runs elsewhere, and writes reports. */
import { written } from '../api.js';
import { ago, clock } from '../format.js';
import { html, useEffect, useState } from '../lib.js';
import { shown } from '../names.js';
import { Empty, Panel } from '../parts/panel.js';
import { repeated } from '../poll.js';

const PATH = '/api/report';
const POLL_SECONDS = 30;

export default function Pipeline() {
  const report = useReport();
  const isMissing = report.error?.status === 404;
  const note = report.data ? `written ${ago(report.data)}, ${clock(report.data)}` : '';
  return html`<header class="page-head"><h1>Pipeline</h1><span class="muted">what the telemetry of days says</span></header>
    ${isMissing
      ? html`<${Panel} title="Last report"><${Missing} reason=${report.error.message} /><//>`
      : html`<${Panel} title="Last report" note=${note} of=${report}>
        ${(at) => html`<iframe key=${at} class="report" sandbox="" src=${PATH} title="The pipeline's last report"></iframe>`}<//>`}`;
}

/** The time of the last report, asked for again and again. */
function useReport() {
  const [report, setReport] = useState({});
  useEffect(() => {
    const ended = new AbortController();
    const stop = repeated(() => written(PATH, ended.signal).then(
      (data) => setReport({ data, at: Date.now() }),
      (error) => !ended.signal.aborted && setReport((old) => ({ ...old, error })),
    ), POLL_SECONDS);
    return () => {
      ended.abort();
      stop();
    };
  }, []);
  return report;
}

/** The reason names the command between backquotes. */
function Missing({ reason }) {
  const [before, command, after] = reason.split('`');
  return html`<${Empty}>The pipeline runs apart from the node; ${shown(before)}
    <code>${shown(command)}</code>${shown(after)}.<//>`;
}
