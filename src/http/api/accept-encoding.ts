// The encodings that a client accepts for a response.

/** Tells whether an Accept-Encoding allows gzip: by its name or by "*", with a weight above 0. */
export function takesGzip(accepted: string | string[] | undefined): boolean {
  let other = false;
  for (const each of `${accepted ?? ""}`.toLowerCase().split(",")) {
    const [coding, ...parameters] = each.split(";").map((part) => part.trim());
    const weight = parameters.find((parameter) => parameter.startsWith("q="));
    const isTaken = weight === undefined || Number(weight.slice(2)) > 0;
    if (coding === "gzip" || coding === "x-gzip") return isTaken;
    if (coding === "*") other = isTaken;
  }
  return other;
}
