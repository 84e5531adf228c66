//! `ember`: runs, measures, quantizes, describes and fetches language models. It calls libember by its C interface, as any other program
//! does; only `quantize`, for which that has nothing, and `pull` are made of other code.

mod bench;
mod chat;
mod embed;
mod failure;
mod ffi;
mod hub;
mod inspect;
mod interrupt;
mod library;
mod models;
mod output;
mod pull;
mod quantize;
mod run;
mod text;

use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use failure::{Failure, Result};

/// Runs language models on this machine's processor.
///
/// MODEL is a GGUF file, one of several that belong together, a Hugging Face folder, or OWNER/NAME, OWNER/NAME:QUANT or OWNER/NAME/FILE of
/// a model that `ember pull` fetched.
#[derive(Parser)]
#[command(
    name = "ember",
    disable_help_subcommand = true,
    subcommand_required = true,
    arg_required_else_help = true,
    max_term_width = 110
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Continues a prompt
    Run(run::RunArgs),
    /// Holds a conversation by the model's own template
    Chat(chat::ChatArgs),
    /// Prints vectors of texts, a line of JSON each
    Embed(embed::EmbedArgs),
    /// Measures how fast a model runs prompts and generates
    Bench(bench::BenchArgs),
    /// Writes a GGUF file again with its matrices in another number format
    Quantize(quantize::QuantizeArgs),
    /// Describes a model, and says whether it runs and what memory it takes
    Inspect(inspect::InspectArgs),
    /// Fetches a model from a hub
    ///
    /// It goes into the folder that Hugging Face's clients share; the path is printed. What an interrupted attempt left is kept, and gone on
    /// with. The environment says the rest: HF_TOKEN who you are, HF_ENDPOINT another hub, HF_HOME or HF_HUB_CACHE another folder,
    /// SSL_CERT_FILE other certificates to trust, and HTTPS_PROXY a proxy.
    Pull(pull::PullArgs),
}

fn main() -> ExitCode {
    let (library, build) = library::version();
    let version = env!("CARGO_PKG_VERSION");
    // The library's line, an item to a line.
    let items = build.split_once("; ").map_or(build, |(_, items)| items).replace("; ", "\n");
    let command = Cli::command()
        .version(version)
        .long_version(format!("{version}\nlibember: {library}\n{items}").leak() as &str);
    let cli = match command.try_get_matches().and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => cli,
        Err(e) => e.exit(),
    };
    let done = library::log_warnings().and_then(|()| execute(&cli.command));
    let Err(failure) = done else { return ExitCode::SUCCESS };
    match &failure {
        Failure::Said(sentence) => output::note(format_args!("ember: {sentence}")),
        Failure::Usage(sentence) => {
            output::note(format_args!("ember: {sentence}\n\nFor more information, try '--help'."))
        }
        Failure::Interrupted | Failure::Unread => {}
    }
    ExitCode::from(failure.exit_code())
}

fn execute(command: &Command) -> Result<()> {
    match command {
        Command::Run(args) => run::run(args),
        Command::Chat(args) => chat::run(args),
        Command::Embed(args) => embed::run(args),
        Command::Bench(args) => bench::run(args),
        Command::Quantize(args) => quantize::run(args),
        Command::Inspect(args) => inspect::run(args),
        Command::Pull(args) => pull::run(args),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
