//! The name of a host, as records store it. `ralph-host` knows the hosts themselves.

use alloc::borrow::Cow;
use serde::{Deserialize, Serialize};

/// Any name is accepted, so that records of newer versions stay readable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct HostName(Cow<'static, str>);

impl HostName {
    /// The host of records without a host name. When those were written, it was the only host.
    pub const DEFAULT: Self = Self::new("claude");

    pub const fn new(name: &'static str) -> Self {
        Self(Cow::Borrowed(name))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub fn is_default(&self) -> bool {
        *self == Self::DEFAULT
    }
}

impl Default for HostName {
    fn default() -> Self {
        Self::DEFAULT
    }
}
