// The page of one stream: what the server tells, and what can be done about it.
'use strict';

const $ = id => document.getElementById(id);
const MOST_POINTS = 4096;
let token = sessionStorage.getItem('token') || '';
let chosen = null;
let several = false;
const nothing = () => ({ points: [], conditions: {}, audit: [], snapshots: [] });
let shown = nothing();
let timeline;
const shots = new Map();

function headers() {
  return token ? { Authorization: 'Bearer ' + token } : {};
}

async function ask(path, options = {}) {
  const answer = await fetch(path, { ...options, headers: headers() });
  if (answer.status === 401) {
    await askForToken();
    return ask(path, options);
  }
  if (!answer.ok) throw new Error((await answer.json()).error);
  return answer;
}

const json = async (path, options) => (await ask(path, options)).json();
const at = (stream, rest = '') =>
  `/admin/v1/streams/${encodeURIComponent(stream.id)}${rest}?model=${encodeURIComponent(stream.model)}`;
const key = stream => encodeURIComponent(stream.model) + '/' + encodeURIComponent(stream.id);

// Dialogs.

function dialog({ title, text, yes, snapshots, wantsToken }) {
  const box = $('confirm');
  $('confirm-title').textContent = title;
  $('confirm-text').textContent = text;
  $('confirm-yes').textContent = yes;
  $('confirm-choice').hidden = !snapshots;
  $('confirm-token').hidden = !wantsToken;
  if (snapshots) {
    $('snapshots').replaceChildren(...snapshots.map(s => new Option(`after step ${s.step}, ${clock(s.time)}`, s.step)));
  }
  box.returnValue = 'no';
  box.showModal();
  return new Promise(done => box.addEventListener('close', () => done(box.returnValue === 'yes'), { once: true }));
}

let asking;
function askForToken() {
  asking ||= dialog({ title: 'Token', text: 'This server answers only with its token.', yes: 'Go on', wantsToken: true })
    .then(() => {
      token = $('token').value.trim();
      sessionStorage.setItem('token', token);
      asking = null;
    });
  return asking;
}

// Words and numbers.

const percent = share => share == null ? '–' : (100 * share).toFixed(1) + ' %';
const clock = time => time ? new Date(1000 * time).toLocaleTimeString() : '–';
const count = n => n == null ? '–' : n.toLocaleString('en');
function size(bytes) {
  if (bytes == null) return '–';
  const unit = bytes >= 1 << 20 ? [1 << 20, 'MiB'] : [1 << 10, 'KiB'];
  return (bytes / unit[0]).toFixed(1) + ' ' + unit[1];
}

function cell(text, name) {
  const td = document.createElement('td');
  td.textContent = text;
  if (name) td.className = name;
  return td;
}

// What is shown.

function show() {
  const last = shown.points[shown.points.length - 1] || {};
  const facts = shown.facts || {};
  $('adapted').textContent = percent(last.estimate_adapted);
  $('frozen').textContent = percent(last.estimate_frozen);
  $('condition').textContent = shown.points.length ? '#' + last.condition : '–';
  $('steps').textContent = count(facts.step);
  $('images').textContent = count(shown.images);
  $('bytes').textContent = shown.in_memory ? size(shown.bytes) : 'on disk';
  const state = !shown.in_memory ? ['on disk', ''] : shown.frozen ? ['frozen', 'frozen']
    : last.is_frozen ? ['guard: the frozen model answers', 'guarded'] : ['learning', 'learning'];
  $('state').textContent = state[0];
  $('state').className = 'pill ' + state[1];
  $('freeze').textContent = shown.frozen ? 'Resume' : 'Freeze';
  $('no-steps').hidden = shown.points.length > 0;
  timeline.show(shown.points);
  showConditions();
  showKept();
  showAudit();
}

function showConditions() {
  const rows = Object.entries(shown.conditions || {}).sort((a, b) => b[1].last_step - a[1].last_step).map(([id, c], place) => {
    const row = document.createElement('tr');
    const name = cell('#' + id);
    const swatch = document.createElement('span');
    swatch.className = 'swatch';
    swatch.style.background = colourOf(+id);
    name.prepend(swatch);
    const isFirst = Object.keys(shown.conditions)[0] === id;
    const words = isFirst ? 'the first one' : c.words.length ? c.words.join(', ') : 'looks like the first';
    const seen = cell('');
    const box = document.createElement('div');
    box.className = 'shots';
    if (place < 24) for (let n = 0; n < c.thumbnail_count; n++) box.append(shot(id, n));
    seen.append(box);
    row.append(name, cell(words, 'words'), cell(count(c.images)), cell(count(c.steps)), cell(count(c.first_step)), cell(clock(c.last_time)),
      cell(c.looks.brightness.toFixed(2)), cell(c.looks.contrast.toFixed(2)), cell(c.looks.detail.toFixed(2)), seen);
    return row;
  });
  $('conditions').replaceChildren(...rows);
}

/** A small copy of an image, drawn once. */
function shot(condition, n) {
  const place = [key(chosen), condition, n].join(' ');
  if (!shots.has(place)) {
    const canvas = document.createElement('canvas');
    shots.set(place, canvas);
    ask(at(chosen, `/thumbnails/${condition}/${n}`)).then(answer => answer.blob()).then(createImageBitmap).then(image => {
      canvas.width = image.width;
      canvas.height = image.height;
      canvas.getContext('2d').drawImage(image, 0, 0);
    }).catch(() => shots.delete(place));
  }
  return shots.get(place);
}

function showKept() {
  $('kept').hidden = !shown.snapshots.length;
  $('kept').tBodies[0].replaceChildren(...shown.snapshots.map(kept => {
    const row = document.createElement('tr');
    const button = document.createElement('button');
    button.textContent = kept.pinned ? 'Unpin' : 'Pin';
    button.title = kept.pinned ? 'Newer snapshots may take its place' : 'Keep it however many newer ones there are';
    button.onclick = () => act(kept.pinned ? 'unpin' : 'pin', { step: kept.step });
    const last = cell('');
    last.append(button);
    row.append(cell(count(kept.step)), cell(clock(kept.time)), cell(size(kept.bytes)), last);
    return row;
  }));
}

const OWN = ['begin', 'restore', 'evict', 'snapshot', 'rollback', 'pin', 'unpin', 'reset', 'freeze', 'resume'];
function showAudit() {
  $('audit').replaceChildren(...shown.audit.slice(-40).reverse().map(entry => {
    const row = document.createElement('tr');
    if (!OWN.includes(entry.action)) row.className = 'guard';
    row.append(cell(clock(entry.time)), cell(entry.step), cell(entry.action), cell(entry.reason));
    return row;
  }));
}

// What the server tells.

async function load() {
  const { streams } = await json('/admin/v1/streams');
  const wanted = chosen ? key(chosen) : location.hash.slice(1);
  chosen = streams.find(s => key(s) === wanted) || streams.find(s => s.in_memory) || streams[0] || null;
  $('streams').replaceChildren(...streams.map(s =>
    new Option(several ? `${s.model} · ${s.id}` : s.id, key(s), s === chosen, s === chosen)));
  if (chosen) {
    const [stream, kept] = await Promise.all([json(at(chosen)), json(at(chosen, '/snapshots'))]);
    shown = { ...nothing(), ...stream, ...kept };
  }
  show();
}

let due;
function soon() {
  due ||= setTimeout(() => {
    due = null;
    load().catch(error => say(error.message));
  }, 400);
}

function told(event, data) {
  if (event === 'step' && chosen && data.model === chosen.model && data.stream === chosen.id) {
    shown.points.push(data.point);
    if (shown.points.length > MOST_POINTS) shown.points.shift();
    timeline.show(shown.points);
  }
  soon();
}

/** Server-sent events by hand: the browser's own reader cannot send a token. */
async function listen() {
  for (;;) {
    try {
      const answer = await ask('/admin/v1/events');
      $('link').textContent = 'live';
      $('link').classList.add('on');
      await load();
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      let held = '';
      for (;;) {
        const { value, done } = await reader.read();
        if (done) break;
        held += value;
        const parts = held.split('\n\n');
        held = parts.pop();
        for (const part of parts) {
          const name = /^event: (.*)$/m.exec(part), data = /^data: (.*)$/m.exec(part);
          if (name && data) told(name[1], JSON.parse(data[1]));
        }
      }
    } catch (error) {
      say(error.message);
    }
    $('link').textContent = 'not connected';
    $('link').classList.remove('on');
    await new Promise(later => setTimeout(later, 2000));
  }
}

// What can be done.

function say(text) {
  $('said').textContent = text;
}

async function act(action, body) {
  try {
    const done = await json(at(chosen, '/' + action), { method: 'POST', body: body && JSON.stringify(body) });
    say(`${done.action}: now at step ${done.step}, version ${done.version}`);
  } catch (error) {
    say(error.message);
  }
  soon();
}

$('freeze').onclick = () => act(shown.frozen ? 'resume' : 'freeze');
$('snapshot').onclick = () => act('snapshot');
$('rollback').onclick = async () => {
  if (!chosen) return;
  const { snapshots } = await json(at(chosen, '/snapshots'));
  if (!snapshots.length) return say('There is no snapshot yet.');
  const text = `“${chosen.id}” goes back to what it knew then; what it learnt since is lost.`;
  if (await dialog({ title: 'Roll back?', text, yes: 'Roll back', snapshots })) act('rollback', { step: +$('snapshots').value });
};
$('reset').onclick = async () => {
  if (!chosen) return;
  const text = `“${chosen.id}” forgets everything and begins with the source model. Snapshots stay.`;
  if (await dialog({ title: 'Reset?', text, yes: 'Reset' })) act('reset');
};
$('streams').onchange = event => {
  const [model, id] = event.target.value.split('/').map(decodeURIComponent);
  chosen = { model, id };
  location.hash = event.target.value;
  load().catch(error => say(error.message));
};
$('theme').onclick = () => {
  const isDark = document.documentElement.dataset.theme
    ? document.documentElement.dataset.theme === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches;
  document.documentElement.dataset.theme = isDark ? 'light' : 'dark';
  timeline.build();
};
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => timeline.build());

timeline = new Timeline({ accuracy: $('accuracy'), likeness: $('likeness'), strip: $('strip') });
json('/admin/v1/server').then(found => {
  const models = found.models.map(m => `“${m.name}”: ${m.network} adapted by ${m.method}${m.guard ? ' under guard' : ''}`);
  several = models.length > 1;
  $('about').textContent = `${models.join('; ')}; ${found.mode}, batches of ${found.batch}, paint ${found.version}`;
}).catch(error => say(error.message));
listen();
