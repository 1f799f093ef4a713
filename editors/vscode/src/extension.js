// Starts `jobgate lsp`, and nothing else: what it does is the same in every editor.
"use strict";

const vscode = require("vscode");
const { LanguageClient, RevealOutputChannelOn } = require("vscode-languageclient/node");

let client;

async function start() {
  const settings = vscode.workspace.getConfiguration("jobgate");
  const policy = settings.get("policy", "");
  const args = ["lsp", ...(policy ? ["--policy", policy] : []), ...settings.get("arguments", [])];
  const server = { command: settings.get("path", "jobgate") || "jobgate", args };
  client = new LanguageClient("jobgate", "Jobgate", server, {
    documentSelector: ["yaml", "json", "helm"].map((language) => ({ language, scheme: "file" })),
    revealOutputChannelOn: RevealOutputChannelOn.Never,
  });
  try {
    await client.start();
  } catch (error) {
    client = undefined;
    const choice = await vscode.window.showErrorMessage(
      `Jobgate did not start (${server.command}): ${error.message}`,
      "Open Settings",
    );
    if (choice) {
      await vscode.commands.executeCommand("workbench.action.openSettings", "jobgate.path");
    }
  }
}

async function stop() {
  const running = client;
  client = undefined;
  await running?.stop();
}

async function activate(context) {
  const restart = async () => {
    await stop();
    await start();
  };
  context.subscriptions.push(
    vscode.commands.registerCommand("jobgate.restart", restart),
    vscode.workspace.onDidChangeConfiguration((change) => {
      const names = ["jobgate.path", "jobgate.policy", "jobgate.arguments"];
      if (names.some((name) => change.affectsConfiguration(name))) {
        restart();
      }
    }),
  );
  await start();
}

module.exports = { activate, deactivate: stop };
