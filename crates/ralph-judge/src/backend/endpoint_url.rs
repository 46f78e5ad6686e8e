//! The address of an endpoint: `https`, or `http` on the loopback interface, so that no key travels in the clear.

use ralph_core::judge::JudgeApi;
use ralph_sys::proc::curl_call::PostSchemes;

const MAX_URL_BYTES: usize = 2_000;
const LOOPBACK_HOSTS: &[&str] = &["127.0.0.1", "[::1]", "localhost"];
/// Requires `max_completion_tokens`; compatible services know `max_tokens`.
const OPENAI_HOST: &str = "api.openai.com";

/// An address that may be requested.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct EndpointUrl {
    pub(super) address: String,
    pub(super) schemes: PostSchemes,
    pub(super) is_local: bool,
    pub(super) is_openai: bool,
}

impl EndpointUrl {
    /// Completes a base address with the path of the API.
    pub(super) fn parse(url: &str, api: JudgeApi) -> Result<Self, &'static str> {
        if url.len() > MAX_URL_BYTES || url.chars().any(|char| !char.is_ascii_graphic()) {
            return Err("is too long or has characters that no address has");
        }
        let (scheme, rest) = url.split_once("://").ok_or("has no scheme")?;
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        if authority.contains('@') || url.contains(['?', '#']) {
            return Err("must have no user, query or fragment");
        }
        let host = match authority.strip_prefix('[') {
            Some(_) => authority.split_inclusive(']').next().unwrap_or_default(),
            None => authority.split(':').next().unwrap_or_default(),
        };
        if host.is_empty() {
            return Err("has no host");
        }
        let is_local = LOOPBACK_HOSTS.iter().any(|local| host.eq_ignore_ascii_case(local));
        let schemes = match scheme {
            "https" => PostSchemes::HttpsOnly,
            "http" if is_local => PostSchemes::HttpOrHttps,
            "http" => return Err("is not encrypted; use https"),
            _ => return Err("is neither https nor http"),
        };
        let last = match api {
            JudgeApi::Anthropic => "messages",
            JudgeApi::OpenAi => "chat/completions",
        };
        let path = path.trim_end_matches('/');
        let path = if path.ends_with(last) {
            path.to_string()
        } else if path.is_empty() {
            format!("v1/{last}")
        } else if path.split('/').next_back() == Some("v1") || api == JudgeApi::OpenAi {
            format!("{path}/{last}")
        } else {
            format!("{path}/v1/{last}")
        };
        let address = format!("{scheme}://{authority}/{path}");
        Ok(Self { address, schemes, is_local, is_openai: host.eq_ignore_ascii_case(OPENAI_HOST) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_encrypted_or_local() {
        let parse = |url: &str, api| match EndpointUrl::parse(url, api) {
            Ok(url) => format!("{}{}", url.address, if url.is_local { " local" } else { "" }),
            Err(why) => why.to_string(),
        };
        for (url, anthropic, openai) in [
            (
                "https://a.example",
                "https://a.example/v1/messages",
                "https://a.example/v1/chat/completions",
            ),
            (
                "https://a.example/v1/",
                "https://a.example/v1/messages",
                "https://a.example/v1/chat/completions",
            ),
            (
                "https://a.example/proxy",
                "https://a.example/proxy/v1/messages",
                "https://a.example/proxy/chat/completions",
            ),
            (
                "https://a.example/v1/messages",
                "https://a.example/v1/messages",
                "https://a.example/v1/messages/chat/completions",
            ),
            (
                "http://127.0.0.1:8080",
                "http://127.0.0.1:8080/v1/messages local",
                "http://127.0.0.1:8080/v1/chat/completions local",
            ),
            (
                "http://[::1]:80",
                "http://[::1]:80/v1/messages local",
                "http://[::1]:80/v1/chat/completions local",
            ),
        ] {
            assert_eq!(parse(url, JudgeApi::Anthropic), anthropic);
            assert_eq!(parse(url, JudgeApi::OpenAi), openai);
        }
        for (url, why) in [
            ("http://a.example", "is not encrypted; use https"),
            ("http://127.0.0.1.a.example", "is not encrypted; use https"),
            ("http://127.0.0.1@a.example", "must have no user, query or fragment"),
            ("file:///etc/passwd", "has no host"),
            ("ftp://a", "is neither https nor http"),
            ("a.example", "has no scheme"),
            ("https://a.example/\u{a}x", "is too long or has characters that no address has"),
            ("https://a.example/?key=1", "must have no user, query or fragment"),
        ] {
            assert_eq!(parse(url, JudgeApi::Anthropic), why, "{url}");
        }
    }
}
