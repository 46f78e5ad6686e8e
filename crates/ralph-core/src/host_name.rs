//! The name of a host, as records store it. `ralph-host` knows the hosts themselves.

use alloc::borrow::Cow;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct HostName(Cow<'static, str>);

impl HostName {
    /// The host of a record that names none. There was only this one when such records were written.
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
