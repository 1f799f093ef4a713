-- How long Neovim waits for diagnostics of a manifest with three problems: `.ci/editors` runs it.
--
--   JOBGATE=jobgate nvim --headless -u NONE -i NONE -n -S editors/neovim/measure.lua

local ROUNDS = 15

local here = debug.getinfo(1, "S").source:sub(2):match("(.*/)") or "./"
local broken = assert(io.open(here .. "../job.yaml")):read("*a")
local good = [[
---
apiVersion: batch/v1
kind: Job
metadata:
  name: evaluate
spec:
  activeDeadlineSeconds: 3600
  ttlSecondsAfterFinished: 3600
  podReplacementPolicy: Failed
  template:
    spec:
      restartPolicy: Never
      containers:
        - name: evaluate
          image: registry.example.com/evaluate:v1
]]

local arrived
local is_open = true
local client = vim.lsp.start_client({
  name = "jobgate",
  cmd = { os.getenv("JOBGATE") or "jobgate", "lsp" },
  root_dir = vim.fn.tempname(),
  flags = { debounce_text_changes = 0 },
  handlers = {
    ["textDocument/publishDiagnostics"] = function(err, result, ...)
      vim.lsp.diagnostic.on_publish_diagnostics(err, result, ...)
      -- A closed document has no version.
      if (result.version ~= nil) == is_open then
        arrived = vim.loop.hrtime()
      end
    end,
  },
})

local function wait()
  return vim.wait(60000, function() return arrived end, 1) and arrived
end

local function median(times)
  table.sort(times)
  return times[math.floor(#times / 2) + 1], times[#times]
end

local failed = false
local function measure(name, size, bound, blocks)
  local text = broken
  while not size(text) do
    text = text .. string.rep(good, blocks)
  end
  local path = vim.fn.tempname() .. ".yaml"
  local file = assert(io.open(path, "w"))
  file:write(text)
  file:close()
  vim.cmd("edit " .. path)
  local buffer = vim.api.nvim_get_current_buf()
  local opened, typed, unfinished, found = {}, {}, {}, 0
  local function change(from, to, lines)
    arrived = nil
    local start = vim.loop.hrtime()
    vim.api.nvim_buf_set_text(buffer, from, 0, to, 0, lines)
    wait()
    return (arrived - start) / 1e6
  end
  for round = 1, ROUNDS do
    arrived, is_open = nil, true
    local start = vim.loop.hrtime()
    vim.lsp.buf_attach_client(buffer, client)
    if not wait() then
      io.stderr:write("no diagnostics came\n")
      return vim.cmd("cquit 1")
    end
    table.insert(opened, (arrived - start) / 1e6)
    found = #vim.diagnostic.get(buffer)
    table.insert(typed, change(3, 3, { "#" .. round, "" }))
    -- A quote that is not closed yet.
    table.insert(unfinished, change(3, 3, { '  labels: {a: "b', "" }))
    change(3, 4, { "" })
    arrived, is_open = nil, false
    vim.cmd("silent! lua vim.lsp.buf_detach_client(" .. buffer .. ", " .. client .. ")")
    -- Closing it clears its diagnostics.
    wait()
  end
  vim.cmd("bwipeout!")
  os.remove(path)
  local line = "%-11s %7d bytes %d problems  opened %5.1f ms (most %5.1f)  typed %5.1f ms (most %5.1f)"
    .. "  unfinished %5.1f ms (most %5.1f)  bound %d ms\n"
  local open, open_most = median(opened)
  local type, type_most = median(typed)
  local unready, unready_most = median(unfinished)
  io.stdout:write(
    string.format(line, name, #text, found, open, open_most, type, type_most, unready, unready_most, bound)
  )
  failed = failed or found ~= 3 or math.max(open, type, unready) > bound
end

vim.wait(10000, function() return vim.lsp.get_client_by_id(client) and vim.lsp.get_client_by_id(client).initialized end, 1)
-- Once the workspace is read, the server says nothing by itself.
vim.wait(500, function() return false end)
measure("1,000 lines", function(text) return select(2, text:gsub("\n", "")) >= 1000 end, 50, 1)
measure("1 MB", function(text) return #text >= 1000000 end, 300, 100)
vim.cmd(failed and "cquit 1" or "qall!")
