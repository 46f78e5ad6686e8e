//! How addresses are shown: knowing one may be enough to post there.

/// A URL reduced to its host; path, query and credentials may be secret.
pub(super) fn redact_url(address: &str) -> String {
    let (scheme, rest) = address.split_once("://").unwrap_or(("https", ""));
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = host.rsplit('@').next().unwrap_or_default();
    format!("{scheme}://{host}/…")
}
