/**
 * Text that a model or a tool wrote, as markdown. HTML in it is shown as text, the result is sanitised, pictures are
 * links, and a link opens without opener and says where it leads.
 */
import DOMPurify from "dompurify";
import { Marked } from "marked";
import { memo, useMemo, type ReactNode } from "react";

const LONGEST_ADDRESS = 100;

const escapeHtml = (text: string): string =>
  text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);

/** Where a link leads, if it leads to the web or to a mailbox; anything else is no link. */
function hostOf(address: string): string | null {
  if (!/^(https?|mailto):/i.test(address) || !URL.canParse(address)) return null;
  const url = new URL(address);
  return url.protocol === "mailto:" ? "mail" : url.host;
}

function renderLink(address: string, shown: string): string {
  const host = hostOf(address);
  if (host === null) {
    const said = escapeHtml(address.length > LONGEST_ADDRESS ? `${address.slice(0, LONGEST_ADDRESS)}…` : address);
    return shown === said ? shown : `${shown} <span class="link-host">(${said})</span>`;
  }
  const note = host === window.location.host ? "" : ` <span class="link-host">(${escapeHtml(host)})</span>`;
  return `<a href="${escapeHtml(address)}" target="_blank" rel="noopener noreferrer nofollow">${shown}</a>${note}`;
}

const marked = new Marked({
  gfm: true,
  breaks: true,
  renderer: {
    html: ({ text }) => escapeHtml(text),
    link({ href, tokens }) {
      return renderLink(href, this.parser.parseInline(tokens));
    },
    image: ({ href, text }) => renderLink(href, `picture: ${escapeHtml(text || href)}`),
    checkbox: ({ checked }) => (checked ? "☑ " : "☐ "),
  },
});

const TAGS = ["p", "br", "strong", "em", "del", "code", "pre", "blockquote", "ul", "ol", "li", "h1", "h2", "h3", "h4", "h5", "h6", "hr", "a", "span", "table", "thead", "tbody", "tr", "th", "td"];
const LONGEST = 200_000; // a longer text is shown as it is: nobody reads it as a page

export const Markdown = memo(function Markdown({ text }: { text: string }): ReactNode {
  const html = useMemo(() => {
    if (text.length > LONGEST) return null;
    const rendered = marked.parse(text, { async: false });
    return DOMPurify.sanitize(rendered, { ALLOWED_TAGS: TAGS, ALLOWED_ATTR: ["href", "target", "rel", "class", "start", "align"], ALLOW_DATA_ATTR: false });
  }, [text]);
  if (html === null) return <pre className="markdown">{text}</pre>;
  return <div className="markdown" dangerouslySetInnerHTML={{ __html: html }} />;
});
