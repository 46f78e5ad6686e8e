//! How a request is made with `curl`, so that ralph needs no TLS library: the command line, its input and its output.
//! Running it is up to the caller.
//!
//! Other users can read the arguments of a process, so addresses, headers and bodies are never among them: they go
//! through stdin, and a large body through a private file.

use std::path::Path;

/// Which addresses may be requested. Redirects are never followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CurlSchemes {
    HttpsOnly,
    /// For a service that often runs on the same machine.
    HttpOrHttps,
}

/// A body of JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CurlBody<'a> {
    /// One line. Older versions of curl reject lines of more than 100 KB.
    Inline(&'a str),
    /// A private file.
    File(&'a Path),
}

/// What curl prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CurlOutput {
    /// Nothing, and it fails if the status is an error.
    Nothing,
    /// The head and the body of the response, whatever its status.
    Response,
}

/// A `POST` request, or without a body a `GET` request.
#[derive(Clone, Copy, Debug)]
pub struct CurlRequest<'a> {
    pub address: &'a str,
    pub schemes: CurlSchemes,
    /// In addition to the content type of a body.
    pub headers: &'a [(&'a str, &'a str)],
    pub body: Option<CurlBody<'a>>,
    pub output: CurlOutput,
    pub max_seconds: u64,
    /// Whether the address is on this machine, where no proxy may be asked.
    pub is_local: bool,
}

impl CurlRequest<'_> {
    /// The command line, which has no secrets.
    pub fn argv(&self) -> Vec<String> {
        let mut argv: Vec<String> = Vec::new();
        let mut add = |words: &[&str]| argv.extend(words.iter().map(|word| (*word).to_string()));
        // `-q` first, so that `~/.curlrc` has no effect: it could add a proxy, another address or a log file.
        add(&["curl", "-q", "--silent", "--show-error"]);
        match self.output {
            CurlOutput::Nothing => add(&["--fail", "--output", "/dev/null"]),
            CurlOutput::Response => add(&["--include"]),
        }
        let schemes = match self.schemes {
            CurlSchemes::HttpsOnly => "=https",
            CurlSchemes::HttpOrHttps => "=http,https",
        };
        add(&["--proto", schemes, "--max-time", &self.max_seconds.to_string()]);
        if self.is_local {
            add(&["--noproxy", "*"]);
        }
        add(&["--config", "-"]);
        argv
    }

    /// The standard input: the address, the headers and the body. Secret.
    pub fn config(&self) -> String {
        let mut config = format!("url = {}\n", quote_value(self.address));
        if self.body.is_some() {
            config.push_str("header = \"Content-Type: application/json\"\n");
        }
        for (name, value) in self.headers {
            config.push_str(&format!("header = {}\n", quote_value(&format!("{name}: {value}"))));
        }
        match self.body {
            Some(CurlBody::Inline(body)) => {
                config.push_str(&format!("data-raw = {}\n", quote_value(body)));
            }
            Some(CurlBody::File(path)) => {
                let from = format!("@{}", path.display());
                config.push_str(&format!("data-binary = {}\n", quote_value(&from)));
            }
            None => {}
        }
        config
    }
}

/// Quotes a value for a `curl` configuration file. A line break would begin another option, so none is kept.
fn quote_value(text: &str) -> String {
    let text = text.replace(['\n', '\r'], " ");
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

/// A response that curl printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CurlResponse<'a> {
    pub status: u16,
    head: &'a str,
    pub body: &'a str,
}

impl<'a> CurlResponse<'a> {
    /// Parses [`CurlOutput::Response`]. There are several heads if a proxy or an interim response came first; the last
    /// one counts.
    pub fn parse(printed: &'a str) -> Option<Self> {
        let mut rest = printed;
        let mut last = None;
        while rest.starts_with("HTTP/") {
            let (head, body) = rest.split_once("\r\n\r\n").or_else(|| rest.split_once("\n\n"))?;
            let status = head.split_whitespace().nth(1)?.parse().ok()?;
            last = Some(Self { status, head, body });
            rest = body;
        }
        last
    }

    /// The value of a header, whose name is given in lower case.
    pub fn header(&self, name: &str) -> Option<&'a str> {
        let fields = self.head.lines().skip(1).filter_map(|line| line.split_once(':'));
        let mut meant = fields.filter(|(field, _)| field.trim().eq_ignore_ascii_case(name));
        meant.next().map(|(_, value)| value.trim())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R-S7a: the address, the key and the body are in the input and not in the arguments.
    #[test]
    fn secrets_are_in_the_input_and_not_in_the_arguments() {
        let post = CurlRequest {
            address: "https://host/secret-path",
            schemes: CurlSchemes::HttpsOnly,
            headers: &[("x-api-key", "se\"cret\\\nurl = \"http://evil\"")],
            body: Some(CurlBody::File(Path::new("/private/body"))),
            output: CurlOutput::Response,
            max_seconds: 7,
            is_local: true,
        };
        assert_eq!(
            post.argv().join(" "),
            "curl -q --silent --show-error --include --proto =https --max-time 7 --noproxy * --config -"
        );
        assert_eq!(
            post.config(),
            "url = \"https://host/secret-path\"\n\
             header = \"Content-Type: application/json\"\n\
             header = \"x-api-key: se\\\"cret\\\\ url = \\\"http://evil\\\"\"\n\
             data-binary = \"@/private/body\"\n"
        );
        let get = CurlRequest { headers: &[("Accept", "text/x")], body: None, ..post };
        assert_eq!(
            get.config(),
            "url = \"https://host/secret-path\"\nheader = \"Accept: text/x\"\n"
        );
    }

    #[test]
    fn the_last_head_counts() {
        let printed = "HTTP/1.1 200 Connection established\r\n\r\nHTTP/2 429 \r\nRetry-After: 3\r\n\r\n{\"a\":\n\n1}";
        let response = CurlResponse::parse(printed).unwrap();
        assert_eq!((response.status, response.body), (429, "{\"a\":\n\n1}"));
        assert_eq!(response.header("retry-after"), Some("3"));
        assert_eq!(response.header("x-none"), None);
        for broken in ["", "{}", "HTTP/1.1 200 OK", "HTTP/1.1 x\r\n\r\n"] {
            assert_eq!(CurlResponse::parse(broken), None, "{broken}");
        }
    }
}
