//! The address of an endpoint, completed with the path of its API.

use ralph_core::judge::JudgeApi;
use ralph_core::request_address::RequestAddress;
use ralph_sys::proc::curl_call::CurlSchemes;

/// Requires `max_completion_tokens`; compatible services know `max_tokens`.
const OPENAI_HOST: &str = "api.openai.com";

/// An address that may be requested.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct EndpointUrl {
    pub(super) address: String,
    pub(super) schemes: CurlSchemes,
    pub(super) is_local: bool,
    pub(super) is_openai: bool,
}

impl EndpointUrl {
    /// Completes a base address with the path of the API.
    pub(super) fn parse(url: &str, api: JudgeApi) -> Result<Self, &'static str> {
        let parsed = RequestAddress::parse_base(url)?;
        let RequestAddress { scheme, authority, host, path, is_loopback } = parsed;
        let schemes =
            if parsed.is_encrypted() { CurlSchemes::HttpsOnly } else { CurlSchemes::HttpOrHttps };
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
        let is_openai = host.eq_ignore_ascii_case(OPENAI_HOST);
        Ok(Self { address, schemes, is_local: is_loopback, is_openai })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_gets_the_path_of_its_api() {
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
            ("http://127.0.0.1@a.example", "must have no user, query or fragment"),
            ("https://a.example/?key=1", "must have no user, query or fragment"),
        ] {
            assert_eq!(parse(url, JudgeApi::Anthropic), why, "{url}");
        }
    }
}
