-- Neovim 0.8 or newer: put this file into ~/.config/nvim/plugin/. It starts `lowwater lsp` for GSQL files.
vim.filetype.add({ extension = { gsql = "gsql" } })

vim.api.nvim_create_autocmd("FileType", {
  pattern = "gsql",
  callback = function(event)
    local settings = vim.fs.find("lowwater.toml", { path = vim.api.nvim_buf_get_name(event.buf), upward = true })[1]
    vim.bo[event.buf].commentstring = "-- %s"
    vim.lsp.start({
      name = "lowwater",
      cmd = vim.g.lowwater_command or { "lowwater", "lsp" },
      root_dir = settings and vim.fs.dirname(settings) or vim.fn.getcwd(),
    })
  end,
})
