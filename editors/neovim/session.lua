-- A session of Neovim with `jobgate lsp`, as `tests/integration/lsp/editors.rs` runs it:
--
--   JOBGATE=jobgate nvim --headless -u NONE -i NONE -n job.yaml -S editors/neovim/session.lua
--
-- It shows the diagnostics of the file, makes the fix of one, and writes `job.yaml.one`; then it makes all safe
-- fixes and writes the file. Works with Neovim 0.7 and later.

local out = {}
local function say(text)
  for _, line in ipairs(vim.split(text, "\n")) do
    table.insert(out, line)
  end
end

local function fail(why)
  io.stderr:write(why .. "\n")
  vim.cmd("cquit 1")
end

local buffer = vim.api.nvim_get_current_buf()
local version = -1
local client = vim.lsp.start_client({
  name = "jobgate",
  cmd = { os.getenv("JOBGATE") or "jobgate", "lsp" },
  root_dir = vim.fn.getcwd(),
  handlers = {
    ["textDocument/publishDiagnostics"] = function(err, result, ...)
      vim.lsp.diagnostic.on_publish_diagnostics(err, result, ...)
      version = result.version or -1
    end,
  },
})
if not client then
  return fail("the server did not start")
end
vim.lsp.buf_attach_client(buffer, client)

-- Waits for the diagnostics of a version of the text, or a later one.
local function diagnostics(wanted)
  if not vim.wait(20000, function() return version >= wanted end, 5) then
    return fail("no diagnostics came")
  end
  local found = vim.diagnostic.get(buffer)
  table.sort(found, function(a, b)
    return a.lnum ~= b.lnum and a.lnum < b.lnum or a.lnum == b.lnum and a.message < b.message
  end)
  return found
end

local words = { "error", "warning", "info", "hint" }
local function show(found)
  for _, diagnostic in ipairs(found) do
    local first = vim.split(diagnostic.message, "\n")[1]
    local code = diagnostic.code or diagnostic.user_data.lsp.code
    say(string.format("%d:%d %s[%s] %s", diagnostic.lnum + 1, diagnostic.col + 1, words[diagnostic.severity], code, first))
  end
end

local function actions(kind)
  local last = vim.api.nvim_buf_line_count(buffer)
  local answers = vim.lsp.buf_request_sync(buffer, "textDocument/codeAction", {
    textDocument = vim.lsp.util.make_text_document_params(buffer),
    range = { start = { line = 0, character = 0 }, ["end"] = { line = last, character = 0 } },
    context = { diagnostics = {}, only = { kind } },
  }, 20000)
  local answer = answers and answers[client] and answers[client].result
  return answer or fail("no actions came")
end

local function apply(action)
  local offset_encoding = vim.lsp.get_client_by_id(client).offset_encoding or "utf-16"
  vim.lsp.util.apply_workspace_edit(action.edit, offset_encoding)
  return diagnostics(vim.api.nvim_buf_get_changedtick(buffer))
end

local function step()
  say(":edit " .. vim.fn.expand("%:t"))
  show(diagnostics(0))
  say("")
  say(":lua vim.lsp.buf.code_action()")
  local fixes = actions("quickfix")
  for number, action in ipairs(fixes) do
    say(number .. ": " .. action.title)
  end
  -- The last one: what is before it in the file has to stay.
  local chosen = fixes[#fixes]
  say("Type number and <Enter>: " .. #fixes)
  local left = apply(chosen)
  vim.cmd("silent write! " .. vim.fn.expand("%:p") .. ".one")
  say("")
  show(left)
  say("")
  say(':lua vim.lsp.buf.code_action({ context = { only = { "source.fixAll" } }, apply = true })')
  local all = actions("source.fixAll.jobgate")
  say(all[1].title)
  left = apply(all[1])
  vim.cmd("silent write!")
  say("")
  show(left)
end

local worked, why = pcall(step)
if not worked then
  return fail(tostring(why))
end
io.stdout:write(table.concat(out, "\n") .. "\n")
vim.cmd("qall!")
