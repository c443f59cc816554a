// Starts `lowwater lsp` for GSQL files. All that the editor shows comes from there.
const { workspace } = require("vscode");
const { LanguageClient } = require("vscode-languageclient/node");

let client;

exports.activate = async function activate() {
  const settings = workspace.getConfiguration("lowwater");
  const server = { command: settings.get("command"), args: ["lsp", ...settings.get("arguments")] };
  const options = { documentSelector: [{ language: "gsql" }] };
  client = new LanguageClient("lowwater", "Lowwater", server, options);
  await client.start();
};

exports.deactivate = function deactivate() {
  return client?.stop();
};
