// Writes every vector of this folder, by docs/format.md and Node's own crypto
// alone: node generate.mjs
import { createCipheriv, createHash, createHmac } from "node:crypto";
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const sha256 = (b) => createHash("sha256").update(b).digest();
const hmac = (key, b) => createHmac("sha256", key).update(b).digest();
const uint = (size, n) => {
  const b = Buffer.alloc(8);
  b.writeBigUInt64BE(BigInt(n));
  return b.subarray(8 - size);
};
const u16 = (n) => uint(2, n);
const u32 = (n) => uint(4, n);
const u64 = (n) => uint(8, n);
const cat = (...parts) => Buffer.concat(parts.map((p) => (typeof p === "string" ? Buffer.from(p) : Buffer.from(p))));

// The first block of HKDF-Expand is all that this format asks for.
const expand = (key, info, length) => hmac(key, cat(info, [1])).subarray(0, length);

function gcm(key, nonce, aad, plaintext) {
  const c = createCipheriv("aes-256-gcm", key, nonce);
  c.setAAD(aad);
  return cat(c.update(plaintext), c.final(), c.getAuthTag());
}

const string16 = (s) => cat(u16(Buffer.byteLength(s)), s);

function metadata(v, content) {
  return cat(
    string16(v.tenant), string16(v.executionId), string16(v.class), string16(v.kind), string16(v.contentType),
    v.digest ?? sha256(content), u64(v.size ?? content.length),
  );
}

// seal takes any part of the envelope from its overrides, then authenticates
// the whole, so that a defect is the only one.
function seal(key, encoded, content, o = {}) {
  const header = cat(
    o.magic ?? "BLOBSEAL", [o.version ?? 1, o.suite ?? 1], o.reserved ?? [0, 0],
    o.keyId ?? expand(key, "blobd/v1/key-id", 16),
    u32(o.metadataLength ?? encoded.length), u64(o.contentLength ?? content.length),
    o.commitment ?? expand(key, "blobd/v1/commitment", 32),
  );
  return cat(header, gcm(expand(key, "blobd/v1/aead", 32), Buffer.alloc(12), header, cat(encoded, content)));
}

const key = Buffer.from(Array.from({ length: 32 }, (_, i) => i));
const otherKey = sha256("another key");
const base = { tenant: "acme", executionId: "run-1", class: "reasoning", kind: "text", contentType: "text/plain; charset=utf-8" };
const hi = Buffer.from("Hi");

for (const d of ["valid", "invalid", "wrap", "repeat"]) {
  rmSync(join(here, d), { recursive: true, force: true });
  mkdirSync(join(here, d));
}
const write = (path, v) => writeFileSync(join(here, path + ".json"), JSON.stringify(v, null, 2) + "\n");

function valid(name, comment, over, content, pattern) {
  const v = { ...base, ...over };
  const k = name === "example" ? key : sha256("key of " + name);
  const sealed = seal(k, metadata(v, content), content);
  write("valid/" + name, {
    comment,
    blobKey: k.toString("hex"),
    tenant: v.tenant, executionId: v.executionId, class: v.class, kind: v.kind, contentType: v.contentType,
    digest: sha256(content).toString("hex"),
    size: content.length,
    ...(pattern ?? { content: content.toString("hex") }),
    ...(pattern ? {} : { sealed: sealed.toString("hex") }),
    ref: "sha256:" + sha256(sealed).toString("hex"),
  });
}

valid("example", "the worked example of the specification", {}, hi);
valid("empty", "no content", {}, Buffer.alloc(0));
valid("one-byte", "one byte", {}, cat([0x61]));
valid("block", "metadata and content fill whole cipher blocks", { contentType: "x".repeat(160 - 50 - 22 - 16) }, Buffer.alloc(16, 0x62));
valid("summary", "kind summary", { kind: "summary" }, cat("A summary."));
valid("redacted", "kind redacted, no content", { kind: "redacted" }, Buffer.alloc(0));
valid("text", "a text in several scripts", {}, cat("思考 – denk – думать 🧠\nline two\r\n"));
valid("binary", "every byte value, other class, no text", { class: "tool-output", contentType: "application/octet-stream" }, Buffer.from(Array.from({ length: 256 }, (_, i) => i)));
valid("no-content-type", "content type of no bytes", { contentType: "" }, hi);
valid("unicode-ids", "identifiers outside ASCII, not normalised: a letter and its combining mark stay two", { tenant: "mu\u0308ller-株式会社", executionId: "запуск/№1 🚀" }, hi);
valid("odd-ids", "identifiers that look like paths", { tenant: "..", executionId: "../../etc/passwd" }, hi);
valid("least-ids", "every identifier as short as can be", { tenant: "a", executionId: "b", class: "c", contentType: "" }, hi);
valid("greatest-ids", "every identifier as long as can be, metadata of 888 bytes", { tenant: "t".repeat(256), executionId: "é".repeat(128), class: "c".repeat(63), kind: "redacted", contentType: "y".repeat(255) }, hi);
const long = Buffer.from("0123456789abcdefghijklmnopqrstuvwxy".repeat(2048));
valid("70-kib", "71,680 bytes", {}, long, { repeat: { bytes: long.subarray(0, 35).toString("hex"), count: 2048 } });

function invalid(name, reason, comment, sealed, over = {}) {
  write("invalid/" + name, {
    comment, reason,
    blobKey: (over.blobKey ?? key).toString("hex"),
    tenant: over.tenant ?? base.tenant, executionId: over.executionId ?? base.executionId,
    sealed: sealed.toString("hex"),
  });
}

const good = metadata(base, hi);
const whole = seal(key, good, hi);
const sealWith = (o) => seal(key, good, hi, o);
const flip = (b, at) => { const c = Buffer.from(b); c[at] ^= 1; return c; };

invalid("magic", "magic", "last letter of the magic", sealWith({ magic: "BLOBSEAM" }));
invalid("magic-case", "magic", "magic in lower case", sealWith({ magic: "blobseal" }));
invalid("magic-short", "magic", "four bytes of something else", cat("BLOC"));
invalid("version-0", "version", "version 0", sealWith({ version: 0 }));
invalid("version-2", "version", "a version not known", sealWith({ version: 2 }));
invalid("version-2-short", "version", "a version not known, with a shorter header", sealWith({ version: 2 }).subarray(0, 20));
invalid("suite-0", "suite", "suite 0", sealWith({ suite: 0 }));
invalid("suite-2", "suite", "a suite not known", sealWith({ suite: 2 }));
invalid("reserved-first", "reserved", "first reserved byte", sealWith({ reserved: [1, 0] }));
invalid("reserved-second", "reserved", "second reserved byte", sealWith({ reserved: [0, 128] }));
invalid("lengths-metadata-0", "lengths", "metadata of no bytes", sealWith({ metadataLength: 0 }));
invalid("lengths-metadata-56", "lengths", "metadata one byte below the least", sealWith({ metadataLength: 56 }));
invalid("lengths-metadata-889", "lengths", "metadata one byte above the greatest", seal(key, cat(metadata({ ...base, tenant: "t".repeat(256), executionId: "e".repeat(256), class: "c".repeat(63), kind: "redacted", contentType: "y".repeat(255) }, hi), [0]), hi));
invalid("lengths-metadata-max", "lengths", "metadata of 2^32-1 bytes", sealWith({ metadataLength: 0xffffffff }));
invalid("lengths-content-max", "lengths", "content of 2^64-1 bytes", sealWith({ contentLength: 0xffffffffffffffffn }));
invalid("lengths-content-sign", "lengths", "content of 2^63 bytes", sealWith({ contentLength: 1n << 63n }));
invalid("lengths-content-1gib", "lengths", "content one byte above the greatest", sealWith({ contentLength: (1 << 30) + 1 }));
invalid("lengths-wrap", "lengths", "lengths whose sum wraps around to the right total", sealWith({ metadataLength: good.length + 2 + 1, contentLength: 0xffffffffffffffffn }));
invalid("truncated-empty", "truncated", "no byte", Buffer.alloc(0));
invalid("truncated-magic", "truncated", "half of the magic", whole.subarray(0, 4));
invalid("truncated-prefix", "truncated", "one byte short of the versions", whole.subarray(0, 11));
invalid("truncated-header", "truncated", "one byte short of a header", whole.subarray(0, 71));
invalid("truncated-body", "truncated", "a header only", whole.subarray(0, 72));
invalid("truncated-last", "truncated", "the last byte is missing", whole.subarray(0, whole.length - 1));
invalid("truncated-length", "truncated", "content length one too great", sealWith({ contentLength: 3 }));
invalid("trailing-byte", "trailing", "one byte too many", cat(whole, [0]));
invalid("trailing-twice", "trailing", "two blobs in one", cat(whole, whole));
invalid("trailing-length", "trailing", "content length one too small", sealWith({ contentLength: 1 }));
invalid("key-id", "key id", "key id of another key", sealWith({ keyId: expand(otherKey, "blobd/v1/key-id", 16) }));
invalid("wrong-key", "key id", "a whole blob, opened with another key", whole, { blobKey: otherKey });
invalid("commitment", "commitment", "commitment of another key", sealWith({ commitment: expand(otherKey, "blobd/v1/commitment", 32) }));
invalid("commitment-first-bit", "commitment", "first bit of the commitment", sealWith({ commitment: flip(expand(key, "blobd/v1/commitment", 32), 0) }));
invalid("commitment-zero", "commitment", "commitment of zeros", sealWith({ commitment: Buffer.alloc(32) }));
invalid("tag", "tag", "last bit of the tag", flip(whole, whole.length - 1));
invalid("tag-metadata", "tag", "one bit of the encrypted metadata", flip(whole, 72));
invalid("tag-content", "tag", "one bit of the encrypted content", flip(whole, whole.length - 17));
invalid("tag-lengths", "tag", "a byte moved from content to metadata after sealing", (() => {
  const b = Buffer.from(whole);
  b.writeUInt32BE(good.length + 1, 28);
  b.writeBigUInt64BE(1n, 32);
  return b;
})());
invalid("tag-nonce", "tag", "another nonce", (() => {
  const header = whole.subarray(0, 72);
  const nonce = Buffer.alloc(12);
  nonce[11] = 1;
  return cat(header, gcm(expand(key, "blobd/v1/aead", 32), nonce, header, cat(good, hi)));
})());
invalid("tag-no-aad", "tag", "header not authenticated", (() =>
  cat(whole.subarray(0, 72), gcm(expand(key, "blobd/v1/aead", 32), Buffer.alloc(12), Buffer.alloc(0), cat(good, hi))))());

const sealMeta = (m) => seal(key, m, hi);
const fields = (v) => ["tenant", "executionId", "class", "kind", "contentType"].map((f) => v[f] ?? base[f]);
const tail = cat(sha256(hi), u64(2));
const raw = (v) => cat(...fields(v).map((s) => cat(u16(Buffer.from(s).length), s)), tail);
const bad = (name, comment, m) => invalid("metadata-" + name, "metadata", comment, sealMeta(m));
bad("trailing", "one byte behind the metadata", cat(good, [0]));
bad("short", "the last byte of the size is missing", good.subarray(0, good.length - 1));
bad("zeros", "57 zero bytes", Buffer.alloc(57));
bad("length-over", "a string longer than what is left", cat(u16(0xffff), good.subarray(2)));
bad("lengths-little-endian", "lengths in the other byte order", cat(...fields({}).map((s) => cat(u16(Buffer.byteLength(s)).reverse(), s)), tail));
bad("order", "kind before class", cat(...["tenant", "executionId", "kind", "class", "contentType"].map((f) => string16(base[f])), tail));
bad("digest-hex", "digest as hex digits", cat(...fields({}).map(string16), sha256(hi).toString("hex"), u64(2)));
bad("size-limit", "size above the greatest content", metadata({ ...base, size: (1 << 30) + 1 }, hi));
bad("size-negative", "size of 2^64-1", metadata({ ...base, size: 0xffffffffffffffffn }, hi));
bad("tenant-empty", "tenant of no bytes", raw({ tenant: "" }));
bad("tenant-long", "tenant of 257 bytes", raw({ tenant: "t".repeat(257) }));
bad("tenant-utf8", "tenant is not UTF-8", raw({ tenant: Buffer.from([0x61, 0xff]) }));
bad("tenant-overlong", "tenant holds an overlong encoding of /", raw({ tenant: Buffer.from([0x61, 0xc0, 0xaf]) }));
bad("tenant-surrogate", "tenant holds an encoded surrogate", raw({ tenant: Buffer.from([0xed, 0xa0, 0x80]) }));
bad("tenant-control", "tenant holds a newline", raw({ tenant: "ac\nme" }));
bad("execution-empty", "execution id of no bytes", raw({ executionId: "" }));
bad("execution-long", "execution id of 257 bytes", raw({ executionId: "e".repeat(257) }));
bad("execution-dot", "execution id is .", raw({ executionId: "." }));
bad("execution-dots", "execution id is ..", raw({ executionId: ".." }));
bad("execution-utf8", "execution id ends in half a character", raw({ executionId: Buffer.from([0x72, 0xe2, 0x82]) }));
bad("execution-c1", "execution id holds the control character U+0085", raw({ executionId: "a\u0085b" }));
bad("class-empty", "class of no bytes", raw({ class: "" }));
bad("class-long", "class of 64 bytes", raw({ class: "c".repeat(64) }));
bad("class-case", "class with a capital letter", raw({ class: "Reasoning" }));
bad("kind-empty", "kind of no bytes", raw({ kind: "" }));
bad("kind-other", "a kind not known", raw({ kind: "note" }));
bad("kind-case", "kind in capitals", raw({ kind: "TEXT" }));
bad("content-type-long", "content type of 256 bytes", raw({ contentType: "x".repeat(256) }));
bad("content-type-utf8", "content type is not UTF-8", raw({ contentType: Buffer.from([0xfe]) }));
bad("content-type-control", "content type holds CR LF", raw({ contentType: "text/plain\r\nX: y" }));

invalid("tenant", "tenant", "sealed to another tenant", sealMeta(metadata({ ...base, tenant: "other" }, hi)));
invalid("tenant-asker", "tenant", "asked for by another tenant", whole, { tenant: "acm" });
invalid("tenant-case", "tenant", "tenant in another case", whole, { tenant: "Acme" });
invalid("execution", "execution", "sealed to another execution", sealMeta(metadata({ ...base, executionId: "run-2" }, hi)));
invalid("execution-asker", "execution", "asked for by an execution whose id begins alike", whole, { executionId: "run-11" });
invalid("execution-normalised", "execution", "the same id in another Unicode normal form", sealMeta(metadata({ ...base, executionId: "mu\u0308ller" }, hi)), { executionId: "m\u00fcller" });
invalid("owner-boundary", "tenant", "tenant and execution id joined are the same", sealMeta(metadata({ ...base, tenant: "acmer", executionId: "un-1" }, hi)));
invalid("size-small", "size", "size one below the content's", sealMeta(metadata({ ...base, size: 1 }, hi)));
invalid("size-great", "size", "size one above the content's", sealMeta(metadata({ ...base, size: 3 }, hi)));
invalid("digest", "digest", "digest of another content", sealMeta(metadata({ ...base, digest: sha256("Ho") }, hi)));
invalid("digest-bit", "digest", "last bit of the digest", sealMeta(metadata({ ...base, digest: flip(sha256(hi), 31) }, hi)));
invalid("digest-moved", "metadata", "first byte of the content counted to the metadata", seal(key, cat(good, "H"), Buffer.from("i")));

const executionKey = sha256("execution key");
const ref = sha256(whole);
const nonce = Buffer.from("000102030405060708090a0b", "hex");
const wrapAAD = (r) => cat("blobd/v1/blob-key", r);
const wrapUnder = (aad, k = expand(executionKey, "blobd/v1/wrap", 32)) => cat(nonce, gcm(k, nonce, aad, key));
const wrapped = wrapUnder(wrapAAD(ref));
const wrap = (name, comment, reason, w, over = {}) =>
  write("wrap/" + name, {
    comment, ...(reason ? { reason } : { nonce: nonce.toString("hex"), blobKey: key.toString("hex") }),
    executionKey: (over.executionKey ?? executionKey).toString("hex"),
    ref: "sha256:" + (over.ref ?? ref).toString("hex"),
    wrapped: w.toString("hex"),
  });
wrap("valid", "a wrapped key", "", wrapped);
wrap("other-key", "another execution's key", "tag", wrapped, { executionKey: otherKey });
wrap("other-ref", "another blob's ref", "tag", wrapped, { ref: sha256("another blob") });
wrap("no-ref", "wrapped for no ref", "tag", wrapUnder(cat("blobd/v1/blob-key")));
wrap("no-label", "wrapped without the label", "tag", wrapUnder(ref));
wrap("raw-key", "wrapped under the execution key itself", "tag", wrapUnder(wrapAAD(ref), executionKey));
wrap("nonce", "one bit of the nonce", "tag", flip(wrapped, 0));
wrap("tag", "one bit of the tag", "tag", flip(wrapped, 59));
wrap("empty", "no byte", "truncated", Buffer.alloc(0));
wrap("truncated", "59 bytes", "truncated", wrapped.subarray(0, 59));
wrap("trailing", "61 bytes", "trailing", cat(wrapped, [0]));

const tagKey = sha256("tag key");
const part = (b) => cat(u32(Buffer.from(b).length), b);
function repeat(name, comment, over) {
  const c = { class: "reasoning", kind: "text", contentType: "text/plain", audience: Buffer.alloc(0), digest: sha256(hi), ...over };
  const message = cat("blobd/v1/repeat", part(c.class), part(c.kind), part(c.contentType), part(c.audience), c.digest);
  write("repeat/" + name, {
    comment, tagKey: tagKey.toString("hex"), class: c.class, kind: c.kind, contentType: c.contentType,
    audience: c.audience.toString("hex"), digest: c.digest.toString("hex"), tag: hmac(tagKey, message).toString("hex"),
  });
}
repeat("plain", "no audience", {});
repeat("audience", "an audience", { audience: sha256("a principal") });
repeat("kind", "differs from plain in its kind", { kind: "summary" });
repeat("boundary-class", "differs from plain in where class ends", { class: "reasonin", kind: "gtext" });
repeat("boundary-type", "differs from plain in where content type ends", { contentType: "text/plai", audience: Buffer.from("n") });
repeat("boundary-digest", "audience ends in the digest of plain", { audience: sha256(hi), digest: sha256("Ho") });
repeat("empty", "every part empty", { class: "", kind: "", contentType: "", digest: Buffer.alloc(32) });
repeat("long-audience", "an audience of more than 64 KiB", { audience: Buffer.alloc(70000, 7) });

// The worked example, as the specification prints it.
const hex = (from, to) => whole.subarray(from, to).toString("hex");
const line = (h, what) => "    " + h.padEnd(66) + "# " + what;
const example = [["magic", 0, 8], ["version, suite, reserved", 8, 12], ["key id", 12, 28], ["metadata length", 28, 32], ["content length", 32, 40], ["key commitment", 40, 72]]
  .map(([what, a, b]) => line(hex(a, b), what));
for (let at = 72; at < whole.length - 16; at += 32) {
  example.push(line(hex(at, Math.min(at + 32, whole.length - 16)), at === 72 ? "ciphertext" : ""));
}
example.push(line(hex(whole.length - 16), "tag"));
const parts = [...fields({}).map((s, i) => [string16(s), ["tenant", "execution id", "class", "kind", "content type"][i]]), [sha256(hi), "digest"], [u64(2), "size"]];
console.log([...parts.map(([b, what]) => line(b.toString("hex"), what)), ""].join("\n"));
console.log(`AEAD key ${expand(key, "blobd/v1/aead", 32).toString("hex")}\nref sha256:${sha256(whole).toString("hex")}\n`);
console.log(example.map((l) => l.replace(/ *# $/, "")).join("\n"));
