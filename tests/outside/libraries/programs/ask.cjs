// Prints what a package of npm makes of the questions of one topic, a text for each.
"use strict";

const REFUSED = "refused";

function intl(code, amount) {
  return new Intl.NumberFormat("en", { style: "currency", currency: code }).format(amount);
}

function dinero(code, amount) {
  const library = require("dinero.js");
  const currency = library[code];
  const units = Math.round(Number(amount) * currency.base ** currency.exponent);
  return `${code} ${library.toDecimal(library.dinero({ amount: units, currency }))}`;
}

function currencyCodes(code, amount) {
  return `${code} ${Number(amount).toFixed(require("currency-codes").code(code).digits)}`;
}

function libphonenumber(metadata) {
  return (text, country, wanted) => {
    const { parsePhoneNumber } = require(`libphonenumber-js/${metadata}`);
    const number = parsePhoneNumber(text, country || undefined);
    if (wanted !== "is valid") return number.number;
    return number.isValid() ? "valid" : "not valid";
  };
}

function googles(text, country, wanted) {
  const { PhoneNumberUtil, PhoneNumberFormat } = require("google-libphonenumber");
  const util = PhoneNumberUtil.getInstance();
  const number = util.parse(text, country || undefined);
  if (wanted !== "is valid") return util.format(number, PhoneNumberFormat.E164);
  return util.isValidNumber(number) ? "valid" : "not valid";
}

function ulid(name) {
  return (text) => {
    const { isValid, decodeTime } = require(name);
    if (!isValid(text)) return REFUSED;
    decodeTime(text);
    return text;
  };
}

function id128(text) {
  return require("id128").Ulid.fromCanonical(text).toCanonical();
}

function decoded(name) {
  return (text) => Object.values(require(name).decode(text)).find(({ id }) => id === "54").data;
}

function promptparse(text) {
  return require("promptparse").parse(text, true).getTagValue("54");
}

function emvcoQrSdk(text) {
  const { parseQR, QRParseMode } = require("emvco-qr-sdk");
  const amount = parseQR(text, { parseMode: QRParseMode.RAW_OBJECT })["54"];
  return typeof amount === "string" ? amount : "no amount";
}

const PACKAGES = {
  Intl: intl,
  "dinero.js": dinero,
  "currency-codes": currencyCodes,
  "libphonenumber-js": libphonenumber("max"),
  "libphonenumber-js/min": libphonenumber("min"),
  "google-libphonenumber": googles,
  ulid: ulid("ulid"),
  ulidx: ulid("ulidx"),
  id128,
  emvqr: decoded("emvqr"),
  "steplix-emvqr": decoded("steplix-emvqr"),
  promptparse,
  "emvco-qr-sdk": emvcoQrSdk,
};

function answer(name, question) {
  try {
    return String(PACKAGES[name](...question)).replaceAll("\u00a0", " ");
  } catch {
    return REFUSED;
  }
}

const [name, questions] = process.argv.slice(2);
console.log(JSON.stringify(JSON.parse(questions).map((question) => answer(name, question))));
