//! The value of `backend` in `[[judge]]`: a command, a host's client or an HTTP endpoint.

use super::value::{RejectedValue, is_model, is_variable, toml_list, toml_string};
use ralph_core::judge::{JudgeApi, JudgeBackend, JudgeEndpoint, JudgeHost};
use ralph_core::redact::Redactor;
use ralph_core::request_address::RequestAddress;
use ralph_core::text;
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Hosts whose client can judge.
pub(super) const JUDGE_HOSTS: &[&str] = &["claude"];
pub(super) const JUDGE_APIS: &[&str] = &["anthropic", "openai"];
const MAX_COMMAND_WORDS: usize = 200;
/// A text of this length with letters and digits is taken for a key rather than the name of a variable.
const SHORTEST_KEY: usize = 20;

pub(super) const BACKEND_HINT: &str = "expected `{ command = [\"./judge\"] }`, `{ host = \"claude\" }` or \
    `{ http = \"https://api.example.org\", key = \"EXAMPLE_API_KEY\", model = \"…\" }`";
const KEY_HINT: &str = "name the environment variable that holds the key, such as `key = \"ANTHROPIC_API_KEY\"`; \
    the key itself must not be in a file";

/// The keys that belong to each form, by the key that selects it.
const FORMS: [(&str, &[&str]); 3] = [
    ("command", &["command"]),
    ("host", &["host", "model"]),
    ("http", &["http", "key", "model", "api"]),
];

/// A rejected part of the value. The message continues "`judge.backend`".
fn reject(
    span: Range<usize>,
    message: impl Into<String>,
    hint: impl Into<String>,
) -> RejectedValue {
    RejectedValue { span, message: message.into(), hint: hint.into() }
}

pub(super) fn parse_backend(
    table: &DeTable,
    span: Range<usize>,
) -> Result<JudgeBackend, Vec<RejectedValue>> {
    let has = |name: &str| table.iter().any(|(key, _)| key.get_ref() == name);
    let mut forms = FORMS.iter().filter(|(form, _)| has(form));
    let form = match (forms.next(), forms.next()) {
        (Some(form), None) => form,
        (Some((one, _)), Some((other, _))) => {
            let message = format!("has both `{one}` and `{other}`");
            return Err(vec![reject(span, message, "keep one of them")]);
        }
        (None, _) => return Err(vec![missing_form(table, span)]),
    };
    let (form, keys) = form;
    let mut problems = Vec::new();
    for (key, _) in table {
        let written: &str = key.get_ref();
        if !keys.contains(&written) {
            let message = format!("has an unknown key `{}`", text::clean_line(written, 60));
            let hint = match text::nearest(written, keys.iter().copied()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("a backend with `{form}` may have: `{}`", keys.join("`, `")),
            };
            problems.push(reject(key.span(), message, hint));
        }
    }
    let fields = BackendFields { table, span };
    let backend = match *form {
        "command" => fields.command(),
        "host" => fields.host(),
        _ => fields.endpoint(),
    };
    match backend {
        Ok(backend) if problems.is_empty() => Ok(backend),
        Ok(_) => Err(problems),
        Err(more) => {
            problems.extend(more);
            Err(problems)
        }
    }
}

/// No key selects a form, perhaps because it is misspelled.
fn missing_form(table: &DeTable, span: Range<usize>) -> RejectedValue {
    let near = table.iter().find_map(|(key, _)| {
        let near = text::nearest(key.get_ref(), FORMS.iter().map(|(form, _)| *form))?;
        Some((key, near))
    });
    match near {
        Some((key, near)) => {
            let message = format!("has an unknown key `{}`", text::clean_line(key.get_ref(), 60));
            reject(key.span(), message, format!("did you mean `{near}`?"))
        }
        None => reject(span, "names no backend", BACKEND_HINT),
    }
}

struct BackendFields<'a, 'i> {
    table: &'a DeTable<'i>,
    span: Range<usize>,
}

impl BackendFields<'_, '_> {
    fn find(&self, name: &str) -> Option<&Spanned<DeValue<'_>>> {
        self.table.iter().find(|(key, _)| key.get_ref() == name).map(|(_, value)| value)
    }

    fn text(&self, name: &str) -> Result<Option<(String, Range<usize>)>, RejectedValue> {
        let Some(found) = self.find(name) else { return Ok(None) };
        if let DeValue::String(text) = found.get_ref()
            && !text.contains('\0')
        {
            return Ok(Some((text.to_string(), found.span())));
        }
        Err(reject(found.span(), format!("needs a string as `{name}`"), BACKEND_HINT))
    }

    fn command(&self) -> Result<JudgeBackend, Vec<RejectedValue>> {
        self.words().map(JudgeBackend::Command).map_err(|wrong| vec![wrong])
    }

    fn words(&self) -> Result<Vec<String>, RejectedValue> {
        let hint = "expected a list of words: `command = [\"./judge\", \"--strict\"]`";
        let Some(found) = self.find("command") else {
            return Err(reject(self.span.clone(), "names no program", hint));
        };
        let wrong = |message: &str| reject(found.span(), message, hint);
        let DeValue::Array(items) = found.get_ref() else {
            return Err(wrong("needs a list as `command`"));
        };
        if items.len() > MAX_COMMAND_WORDS {
            return Err(wrong("has too many words in `command`"));
        }
        let mut words = Vec::new();
        for item in items {
            let DeValue::String(word) = item.get_ref() else {
                return Err(wrong("needs a list of strings as `command`"));
            };
            words.push(word.to_string());
        }
        if words.first().is_none_or(String::is_empty)
            || words.iter().any(|word| word.contains('\0'))
        {
            return Err(wrong("names no program"));
        }
        Ok(words)
    }

    fn host(&self) -> Result<JudgeBackend, Vec<RejectedValue>> {
        match (self.host_name(), self.model()) {
            (Ok(host), Ok(model)) => Ok(JudgeBackend::Host(JudgeHost { host, model })),
            (host, model) => Err(host.err().into_iter().chain(model.err()).collect()),
        }
    }

    fn host_name(&self) -> Result<String, RejectedValue> {
        let (host, span) = self.text("host")?.unwrap_or_default();
        if !JUDGE_HOSTS.contains(&host.as_str()) {
            let message = format!("cannot have the host `\"{}\"`", text::clean_line(&host, 60));
            let hint = format!("hosts that can judge: `\"{}\"`", JUDGE_HOSTS.join("\"`, `\""));
            return Err(reject(span, message, hint));
        }
        Ok(host)
    }

    fn endpoint(&self) -> Result<JudgeBackend, Vec<RejectedValue>> {
        match (self.url(), self.endpoint_model(), self.key(), self.api()) {
            (Ok(url), Ok(model), Ok(key), Ok(api)) => {
                Ok(JudgeBackend::Http(JudgeEndpoint { url, key, model, api }))
            }
            (url, model, key, api) => {
                let wrong = [url.err(), model.err(), key.err(), api.err()];
                Err(wrong.into_iter().flatten().collect())
            }
        }
    }

    fn url(&self) -> Result<String, RejectedValue> {
        let (url, span) = self.text("http")?.unwrap_or_default();
        // Not quoted: a mistyped URL may contain a secret.
        if RequestAddress::parse_base(&url).is_err() {
            let hint = "expected an `https://` URL without credentials, query or fragment; plain `http://` only on the \
                loopback interface";
            return Err(reject(span, "has a URL that cannot be used", hint));
        }
        Ok(url)
    }

    fn endpoint_model(&self) -> Result<String, RejectedValue> {
        self.model()?.ok_or_else(|| {
            let hint = "name it as the endpoint does: `model = \"…\"`";
            reject(self.span.clone(), "names no model", hint)
        })
    }

    fn key(&self) -> Result<Option<String>, RejectedValue> {
        match self.text("key")? {
            Some((name, span)) if !is_variable(&name) || looks_like_key(&name) => {
                Err(reject(span, "has a `key` that is not the name of a variable", KEY_HINT))
            }
            named => Ok(named.map(|(name, _)| name)),
        }
    }

    fn api(&self) -> Result<JudgeApi, RejectedValue> {
        let Some((name, span)) = self.text("api")? else { return Ok(JudgeApi::default()) };
        match name.as_str() {
            "anthropic" => Ok(JudgeApi::Anthropic),
            "openai" => Ok(JudgeApi::OpenAi),
            _ => {
                let message = format!("cannot have the api `\"{}\"`", text::clean_line(&name, 60));
                let hint = match text::nearest(&name, JUDGE_APIS.iter().copied()) {
                    Some(near) => format!("did you mean `\"{near}\"`?"),
                    None => format!("expected one of `\"{}\"`", JUDGE_APIS.join("\"`, `\"")),
                };
                Err(reject(span, message, hint))
            }
        }
    }

    fn model(&self) -> Result<Option<String>, RejectedValue> {
        match self.text("model")? {
            Some((model, _)) if is_model(&model) => Ok(Some(model)),
            Some((_, span)) => {
                let hint = "expected printable characters without spaces, not starting with `-`";
                Err(reject(span, "has a `model` that is not a name", hint))
            }
            None => Ok(None),
        }
    }
}

/// What a policy would reject about this backend: a message that continues "the judge", and a hint.
pub fn check_backend(backend: &JudgeBackend) -> Result<(), (String, String)> {
    let text = format!("backend = {}", backend_toml(backend));
    let parsed = DeTable::parse(&text);
    let Some(found) = parsed.as_ref().ok().and_then(|table| table.get_ref().get("backend")) else {
        return Err((
            "has a backend that cannot be written down".to_string(),
            BACKEND_HINT.to_string(),
        ));
    };
    let DeValue::Table(table) = found.get_ref() else { return Ok(()) };
    match parse_backend(table, found.span()) {
        Ok(_) => Ok(()),
        Err(wrongs) => match wrongs.into_iter().next() {
            Some(RejectedValue { message, hint, .. }) => Err((message, hint)),
            None => Ok(()),
        },
    }
}

/// Whether a text in the place of a variable's name is more likely a key itself.
fn looks_like_key(text: &str) -> bool {
    let has_both = text.bytes().any(|byte| byte.is_ascii_lowercase())
        && text.bytes().any(|byte| byte.is_ascii_digit());
    Redactor::default().redact(text) != text || text.len() >= SHORTEST_KEY && has_both
}

/// Renders the value as an inline table.
pub(super) fn backend_toml(backend: &JudgeBackend) -> String {
    let text = |name: &str, text: &str| format!("{name} = {}", toml_string(text));
    let fields = match backend {
        JudgeBackend::Command(words) => vec![format!("command = {}", toml_list(words))],
        JudgeBackend::Host(JudgeHost { host, model }) => {
            let model = model.as_deref().map(|model| text("model", model));
            [Some(text("host", host)), model].into_iter().flatten().collect()
        }
        JudgeBackend::Http(JudgeEndpoint { url, key, model, api }) => {
            let key = key.as_deref().map(|key| text("key", key));
            let api = match api {
                JudgeApi::Anthropic => "anthropic",
                JudgeApi::OpenAi => "openai",
            };
            let all =
                [Some(text("http", url)), key, Some(text("model", model)), Some(text("api", api))];
            all.into_iter().flatten().collect()
        }
    };
    format!("{{ {} }}", fields.join(", "))
}
