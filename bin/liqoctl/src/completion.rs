//! `completion`: what shells need to complete our command lines.

use clap_complete::Shell;

use crate::cli;
use crate::failure::Failure;
use crate::printer::Printer;

const EXAMPLES: &str = "\
Examples:
  # In this shell
  source <(liqoctl completion bash)
  # In every shell
  liqoctl completion zsh > \"${fpath[1]}/_liqoctl\"
  liqoctl completion fish > ~/.config/fish/completions/liqoctl.fish
  liqoctl completion powershell | Out-String | Invoke-Expression";

/// Prints what a shell needs to complete command lines
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Completion {
    /// The shell
    #[arg(value_parser = shells())]
    shell: Shell,
}

/// Prints it.
pub fn run(arguments: &Completion, name: &str, printer: &Printer) -> Result<(), Failure> {
    let mut text = vec![];
    // Shells complete executables, and a plugin's has a hyphen where its call has a blank.
    let executable = name.replace(' ', "-");
    clap_complete::generate(arguments.shell, &mut cli::command(name), executable, &mut text);
    let text = String::from_utf8(text).map_err(|error| Failure::new("cannot complete", error))?;
    printer.plain(text.trim_end());
    Ok(())
}

fn shells() -> clap::builder::EnumValueParser<Shell> {
    clap::builder::EnumValueParser::new()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shell_is_told_of_every_command() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish, Shell::PowerShell] {
            let (printer, kept) = Printer::memory(false, false);
            run(&Completion { shell }, "liqoctl", &printer).unwrap();
            let text = String::from_utf8(kept.lock().unwrap().clone()).unwrap();
            assert!(text.contains("uninstall") && text.contains("kubeadm"), "{shell}");
        }
    }
}
