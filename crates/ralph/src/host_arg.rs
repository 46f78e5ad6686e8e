//! The option that selects a host. It is hidden while ralph supports only one.

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use ralph_host::{HOSTS, HostProfile, default_host, host_named};

#[derive(Args, Clone, Copy)]
pub(crate) struct HostArg {
    /// Choose the agent's client
    #[arg(long, value_name = "HOST", value_parser = host_parser(), hide = HOSTS.len() == 1)]
    host: Option<&'static HostProfile>,
}

impl HostArg {
    pub(crate) fn profile(self) -> &'static HostProfile {
        self.host.unwrap_or_else(default_host)
    }
}

pub(crate) fn host_names() -> impl Iterator<Item = &'static str> {
    HOSTS.iter().map(|host| host.name)
}

/// Parses the name of a host.
pub(crate) fn host_parser() -> impl TypedValueParser<Value = &'static HostProfile> {
    PossibleValuesParser::new(host_names())
        .map(|name| host_named(&name).unwrap_or_else(default_host))
}
