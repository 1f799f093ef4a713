// Opens VS Code's own web client on a workspace, and looks at what the extension shows there. `.ci/vscode` runs it.
import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import fs from "node:fs";
import { createRequire } from "node:module";
import os from "node:os";
import path from "node:path";

const [tools, picture] = process.argv.slice(2);
const { chromium } = createRequire(`${tools}/`)("playwright-core");
const place = fs.mkdtempSync(path.join(os.tmpdir(), "jobgate-vscode-"));
const at = (name) => path.join(place, name);
const write = (name, text) => {
  fs.mkdirSync(path.dirname(at(name)), { recursive: true });
  fs.writeFileSync(at(name), text);
};
const read = (name) => fs.readFileSync(at(name), "utf8");

const JOB = fs.readFileSync(new URL("../job.yaml", import.meta.url), "utf8");
const CLAIM = "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata:\n  name: data\nspec:\n  accessModes: [ReadWriteMany]\n";
const VOLUME = "      volumes:\n        - name: data\n          persistentVolumeClaim:\n            claimName: data\n";
for (const name of ["one/job.yaml", "one/save.yaml", "lint/one.yaml", "lint/all.yaml", "two/job2.yaml"]) write(name, JOB);
write("one/uses.yaml", JOB + VOLUME);
write("one/claims/claim.yaml", CLAIM);
write("one/policy.yaml", "apiVersion: jobgate.dev/v1alpha1\nkind: Policy\nmetadata:\n  name: ours\nspec:\n  rules:\n    \n");
write("two/jobgate.yaml", "apiVersion: jobgate.dev/v1alpha1\nkind: Configuration\nignore: [gpu-toleration]\n");
const workspace = (settings) =>
  write("both.code-workspace", JSON.stringify({ folders: [{ path: at("one") }, { path: at("two") }], settings }));
workspace({});
for (const [name, ...select] of [["one", "--select", "gpu-toleration"], ["all"]]) {
  const args = ["lint", "--no-config", "--fix", "--exit-zero", ...select, at(`lint/${name}.yaml`)];
  execFileSync(process.env.JOBGATE, args, { stdio: "ignore" });
}

// An argument by which the server of this run is known.
const mark = `run-${process.pid}`;
const servers = () => {
  const names = fs.readdirSync("/proc").filter((name) => /^\d+$/.test(name));
  const line = (name) => {
    try { return fs.readFileSync(`/proc/${name}/cmdline`, "utf8"); } catch { return ""; }
  };
  return names.map(line).filter((text) => text.includes("\0lsp\0") && text.includes(mark));
};
write("data/User/settings.json", JSON.stringify({
  "workbench.colorTheme": "Default Light Modern", "workbench.startupEditor": "none",
  "workbench.secondarySideBar.defaultVisibility": "hidden", "chat.disableAIFeatures": true,
  "editor.minimap.enabled": false, "extensions.autoCheckUpdates": false, "remote.autoForwardPorts": false,
  "telemetry.telemetryLevel": "off",
}));
write("data/Machine/settings.json", JSON.stringify({ "jobgate.arguments": ["--namespace", mark] }));
const settings = (values) => write("one/.vscode/settings.json", JSON.stringify(values));
async function until(what, check) {
  let last;
  for (const end = Date.now() + 20000; Date.now() < end; await new Promise((done) => setTimeout(done, 100))) {
    try { if (await check()) return console.log(`ok: ${what}`); last = undefined; } catch (error) { last = error; }
  }
  throw new Error(`not seen: ${what}`, { cause: last });
}

settings({ "jobgate.path": "no-such-program" });
fs.mkdirSync(at("bin"));
fs.symlinkSync(process.env.JOBGATE, at("bin/jobgate"));
// VSCODE_CLI: else the PATH would be that of a login shell.
const env = { ...process.env, VSCODE_CLI: "1", PATH: `${at("bin")}:${process.env.PATH}`, JOBGATE_CONFIG: "" };
const entry = `${tools}/node_modules/code-server/out/node/entry.js`;
write("server.yaml", "auth: none\ncert: false\n");
const common = [entry, "--config", at("server.yaml"), "--user-data-dir", at("data"), "--extensions-dir", at("extensions")];
const packed = new URL("jobgate.vsix", import.meta.url).pathname;
execFileSync(process.execPath, [...common, "--install-extension", packed], { env, stdio: "ignore" });
const server = spawn(process.execPath, [...common, "--bind-addr", "127.0.0.1:0", "--disable-telemetry",
  "--disable-update-check", "--disable-workspace-trust", "--disable-getting-started-override"],
  { env, stdio: ["ignore", "pipe", "ignore"] });
let log = "";
server.stdout.on("data", (text) => { log += text; });

const flags = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
  "--disable-component-update", "--disable-sync"];
let browser;
let page;
try {
  await until("the server starts", () => /HTTP server listening on http:\S+:\d+/.test(log));
  const address = log.match(/http:\/\/[\d.]+:\d+/)[0];
  browser = await chromium.launchPersistentContext(at("profile"),
    { executablePath: "/usr/bin/chromium", viewport: { width: 1200, height: 750 }, args: flags });
  page = browser.pages()[0];
  const text = async (selector) => (await page.locator(selector).allInnerTexts()).join("\n").replaceAll("\u00a0", " ");
  const shows = (what, selector, ...words) =>
    until(what, async () => { const all = await text(selector); return words.every((word) => all.includes(word)); });
  const press = (keys) => page.keyboard.press(keys);
  // A key that comes while the editor is busy can be lost: it is pressed until there is an answer.
  const asks = (what, keys, selector, ...words) => until(what, async () => {
    await press("Escape");
    await press(keys);
    await page.waitForTimeout(1000);
    const all = await text(selector);
    return words.every((word) => all.includes(word));
  });
  const choose = async (keys, words) => {
    await press(keys);
    await page.locator(".quick-input-widget:visible").waitFor();
    await page.keyboard.type(words, { delay: 15 });
    await page.waitForTimeout(1000);
    await press("Enter");
  };
  const command = (words) => choose("F1", words);
  const open = async (name, position) => {
    // Rows move while a folder opens.
    await until(`${name} is open`, async () => {
      await page.locator(".explorer-folders-view").getByText(name, { exact: true }).dblclick();
      await page.waitForTimeout(1000);
      return (await text(".editor-group-container.active .breadcrumbs-control")).includes(name);
    });
    await page.locator(".editor-group-container.active .view-lines").first().click();
    if (position) await choose("Control+g", position);
  };
  const load = async (query) => {
    // Now and then a window has no folder, until it is loaded again.
    for (let left = 2; ; left--) {
      await page.goto(`${address}/?${query}`);
      try {
        await page.locator(".monaco-workbench .explorer-folders-view").waitFor({ timeout: 30000 });
        break;
      } catch (error) {
        if (left === 0) throw error;
      }
    }
    await page.waitForTimeout(2000);
  };

  await load(`folder=${at("one")}`);
  await open("job.yaml");
  await shows("a missing program is named", ".notification-toast", '"no-such-program" was not found', "Install Jobgate");
  assert.equal(await page.locator(".notification-toast").count(), 1, "one message is enough");
  await command("Notifications: Clear All Notifications");
  settings({});
  await until("a changed setting starts the server", () => servers().length === 1);
  await command("Problems: Focus on Problems View");
  await shows("problems", ".markers-panel", "8 GPUs without a time limit", "ttl-after-finished", "gpu-toleration");
  for (const level of ["error", "info"]) {
    await until(`squiggles: ${level}`, () => page.locator(`.squiggly-${level}`).count());
  }
  if (picture) await page.screenshot({ path: picture });
  await open("job.yaml", "15:31");
  await command("Show or Focus Hover");
  await shows("hover shows the page", ".monaco-hover", "gpu-toleration", "Bad", "Good");
  await asks("quick fixes", "Control+.", ".action-widget", "Fix gpu-toleration");
  await page.locator(".action-widget .action:has-text('Fix gpu-toleration')").first().click();
  await page.waitForTimeout(500);
  await press("Control+s");
  await until("a quick fix is that of the linter", () => read("one/job.yaml") === read("lint/one.yaml"));
  settings({ "editor.codeActionsOnSave": { "source.fixAll.jobgate": "explicit" } });
  await open("save.yaml", "1:1");
  await shows("its problems", ".markers-panel", "save.yaml");
  await press("Control+s");
  await until("fixes on save are those of the linter", () => read("one/save.yaml") === read("lint/all.yaml"));
  settings({});
  await open("uses.yaml", "19:25");
  await press("F12");
  await shows("the definition of a claim", ".editor-group-container.active .breadcrumbs-control", "claim.yaml");
  await open("policy.yaml", "7:5");
  await asks("rules in a policy", "Control+Space", ".suggest-widget", "checkpoint", "deadline");
  await load(`workspace=${at("both.code-workspace")}`);
  await page.locator(".explorer-folders-view").getByText("two", { exact: true }).click();
  await press("ArrowRight");
  await open("job2.yaml");
  await command("Problems: Focus on Problems View");
  await shows("a folder has its own configuration", ".markers-panel", "job2.yaml", "ttl-after-finished");
  assert(!(await text(".markers-panel")).includes("gpu-toleration"), "it ignores a rule");
  await until("one server for two folders", () => servers().length === 1);
  await open("jobgate.yaml", "3:10");
  await asks("rules in jobgate.yaml", "Control+Space", ".suggest-widget", "api-server", "deadline");
  await press("Escape");
  workspace({ "jobgate.arguments": ["--no-such-option"] });
  await shows("an argument that is wrong is named", ".notification-toast", "unexpected argument '--no-such-option'");
  await page.getByText("Show Log", { exact: true }).click();
  await shows("the log", ".output-view-container, .part.panel", "Usage: jobgate lsp");
  workspace({});
  await until("a setting that is put right starts the server", () => servers().length === 1);
  // A window that is lost, and not closed, is waited for.
  await page.goto("about:blank");
  await until("the server ends with the window", () => servers().length === 0);
} catch (error) {
  await page?.screenshot({ path: path.join(tools, "failed.png") });
  console.error(`${path.join(tools, "failed.png")} shows the window`);
  throw error;
} finally {
  await browser?.close();
  server.kill();
  fs.rmSync(place, { recursive: true, force: true });
}
