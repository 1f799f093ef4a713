// Starts `jobgate lsp`, and nothing else: what it does is the same in every editor.
"use strict";

const { execFile } = require("node:child_process");
const vscode = require("vscode");
const { LanguageClient, RevealOutputChannelOn } = require("vscode-languageclient/node");

const INSTALL = "https://github.com/jobgate/jobgate/blob/main/docs/install.md";

let client;
let output;
// Starts and stops run one after the other: two at once would leave a server behind.
let turn = Promise.resolve();

// Resolves to why a program does not take its arguments, or to nothing. The client would only say that there is no
// connection.
function failure(command, args) {
  const cwd = vscode.workspace.workspaceFolders?.[0]?.uri.fsPath;
  return new Promise((resolve) => {
    execFile(command, [...args, "--help"], { cwd }, (error, _, stderr) => {
      resolve(error && { missing: error.code === "ENOENT", text: stderr.trim() || error.message });
    });
  });
}

async function complain(message, page) {
  output.appendLine(message);
  const answers = [...(page ? ["Install Jobgate"] : []), "Open Settings", "Show Log"];
  const answer = await vscode.window.showErrorMessage(message, ...answers);
  if (answer === "Install Jobgate") {
    await vscode.env.openExternal(vscode.Uri.parse(page));
  } else if (answer === "Open Settings") {
    await vscode.commands.executeCommand("workbench.action.openSettings", "jobgate");
  } else if (answer === "Show Log") {
    output.show();
  }
}

async function start() {
  const settings = vscode.workspace.getConfiguration("jobgate");
  const policy = settings.get("policy", "");
  const args = ["lsp", ...(policy ? ["--policy", policy] : []), ...settings.get("arguments", [])];
  const command = settings.get("path", "jobgate") || "jobgate";
  const why = await failure(command, args);
  if (why) {
    // Waiting for an answer would hold up the next start.
    if (why.missing) {
      complain(`The program "${command}" was not found. Install Jobgate, or set jobgate.path.`, INSTALL);
    } else {
      output.appendLine(why.text);
      complain(`"${[command, ...args].join(" ")}" does not start: ${why.text.split("\n")[0]}`);
    }
    return;
  }
  client = new LanguageClient("jobgate", "Jobgate", { command, args }, {
    documentSelector: ["yaml", "json", "helm"].map((language) => ({ language, scheme: "file" })),
    outputChannel: output,
    revealOutputChannelOn: RevealOutputChannelOn.Never,
  });
  try {
    await client.start();
  } catch (error) {
    client = undefined;
    complain(`"${[command, ...args].join(" ")}" does not start: ${error?.message ?? error}`);
  }
}

async function stop() {
  const running = client;
  client = undefined;
  // A server that is gone already needs no stop.
  await running?.stop().catch(() => {});
}

function next(...steps) {
  for (const step of steps) {
    turn = turn.then(step).catch((error) => output.appendLine(String(error)));
  }
  return turn;
}

function activate(context) {
  output = vscode.window.createOutputChannel("Jobgate");
  context.subscriptions.push(
    output,
    vscode.commands.registerCommand("jobgate.restart", () => next(stop, start)),
    vscode.workspace.onDidChangeConfiguration((change) => {
      const names = ["jobgate.path", "jobgate.policy", "jobgate.arguments"];
      if (names.some((name) => change.affectsConfiguration(name))) {
        next(stop, start);
      }
    }),
  );
  return next(start);
}

module.exports = { activate, deactivate: () => next(stop) };
