//! Mistakes on the command line, in the same voice as every other error.

use crate::report::Failure;
use crate::term;
use crate::{FAILURE, SUCCESS};
use clap::error::{ContextKind, ContextValue, ErrorKind};

/// Exit code 1, not clap's 2: 2 means "block" to a host and "limit reached" to a script.
pub(crate) fn answer(error: &clap::Error) -> u8 {
    if !error.use_stderr() {
        term::out(&error.render().ansi().to_string());
        return SUCCESS;
    }
    match failure(error) {
        Some(failure) => failure.print(),
        None => term::err(&error.render().ansi().to_string()),
    }
    FAILURE
}

/// `None` leaves the words to clap.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "clap's kinds are open; the rest keeps clap's words"
)]
fn failure(error: &clap::Error) -> Option<Failure> {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.clone()),
        Some(ContextValue::Strings(texts)) => texts.first().cloned(),
        Some(_) | None => None,
    };
    let help = "`ralph --help` lists what there is".to_string();
    let similar = |kind| text(kind).map(|name| format!("did you mean `{name}`?"));
    match error.kind() {
        ErrorKind::UnknownArgument => {
            let name = text(ContextKind::InvalidArg)?;
            let noun = if name.starts_with('-') { "option" } else { "argument" };
            let hint = similar(ContextKind::SuggestedArg).unwrap_or(help);
            Some(Failure::new(&format!("unknown {noun} `{name}`"), &hint))
        }
        ErrorKind::InvalidSubcommand => {
            let name = text(ContextKind::InvalidSubcommand)?;
            let hint = similar(ContextKind::SuggestedSubcommand).unwrap_or(help);
            Some(Failure::new(&format!("unknown command `{name}`"), &hint))
        }
        ErrorKind::ValueValidation | ErrorKind::InvalidValue => {
            let (name, value) = (text(ContextKind::InvalidArg)?, text(ContextKind::InvalidValue)?);
            let name = name.split(' ').next().unwrap_or_default().to_string();
            let why = std::error::Error::source(error).map(ToString::to_string);
            let hint = why.unwrap_or_else(|| format!("`ralph --help` says what `{name}` takes"));
            Some(Failure::new(&format!("`{name}` cannot be `{value}`"), &hint))
        }
        _ => None,
    }
}
