//! Pages for requests that are refused. They carry no text of the request.

use crate::refusal::RefusedRequest;
use crate::template::frame::{self, PageFrame};
use axum::http::header;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use maud::{Markup, html};

pub(crate) fn refusal_title(refused: RefusedRequest) -> &'static str {
    match refused {
        RefusedRequest::WrongHost => "This is not the address of the board",
        RefusedRequest::WrongMethod => "This request is not supported",
        RefusedRequest::ForeignPage => "Another page sent this request",
        RefusedRequest::NoSession => "Open the link from your terminal",
        RefusedRequest::WrongLink => "This link is not valid",
        RefusedRequest::UsedLink => "This link was used before",
        RefusedRequest::StaleForm => "This form is out of date",
        RefusedRequest::WrongForm => "This form cannot be read",
        RefusedRequest::TooLarge => "This form is too large",
        RefusedRequest::TooSlow => "This form took too long to arrive",
        RefusedRequest::NotFound => "There is nothing here",
        RefusedRequest::Busy => "Too many pages are open",
        RefusedRequest::Incomplete => "Not every run is counted yet",
        RefusedRequest::Failed => "This page could not be made",
    }
}

fn refusal_hint(refused: RefusedRequest) -> Markup {
    match refused {
        RefusedRequest::WrongHost | RefusedRequest::WrongMethod | RefusedRequest::ForeignPage => {
            html! {
                "Open the board in your browser with the link that " code { "ralph serve" } " printed."
            }
        }
        RefusedRequest::NoSession => html! {
            "The newest link that " code { "ralph serve" } " printed opens the board once. If you have just opened it from another page, "
            a href="/" { "open the board" } "."
        },
        RefusedRequest::WrongLink => html! {
            "A link works once, and until " code { "ralph serve" } " ends. Use the newest link in your terminal."
        },
        RefusedRequest::UsedLink => html! {
            "Another program may have read it, so the session that it opened has ended. "
            "Use the newest link in your terminal."
        },
        RefusedRequest::StaleForm => {
            html! { "Nothing was changed. Go back, reload the page and send it again." }
        }
        RefusedRequest::WrongForm | RefusedRequest::TooLarge | RefusedRequest::TooSlow => {
            html! { "Nothing was changed. Go back and send it again." }
        }
        RefusedRequest::NotFound => {
            html! { "There is no such page, or the run was removed: " code { "ralph list runs --all" } " lists what is kept. " a href="/" { "Board" } }
        }
        RefusedRequest::Incomplete => html! { "The next request continues the index of runs." },
        RefusedRequest::Busy => html! { "Close some of them and reload this one." },
        RefusedRequest::Failed => {
            html! { code { "ralph status --all" } " may say more. " a href="/" { "Board" } }
        }
    }
}

pub(crate) fn refusal(refused: RefusedRequest) -> Response {
    let body = html! {
        div.nothing {
            h1 { (refusal_title(refused)) }
            p { (refusal_hint(refused)) }
        }
    };
    let page = frame::plain_page(
        &PageFrame { title: refusal_title(refused), ..PageFrame::default() },
        &body,
    );
    let mut response = html_response(page);
    *response.status_mut() = refused.status();
    if refused == RefusedRequest::WrongMethod {
        response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET, HEAD, POST"));
    }
    response
}

pub(crate) fn html_response(page: Markup) -> Response {
    let kind = HeaderValue::from_static("text/html; charset=utf-8");
    (StatusCode::OK, [(header::CONTENT_TYPE, kind)], page.into_string()).into_response()
}
