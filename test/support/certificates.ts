// Certificates for tests, created by openssl: an authority, a server's and a client's.

import { execFileSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";

export interface Certificates {
  readonly ca: string;
  readonly cert: string;
  readonly key: string;
  /** Certificate of a client named "client-7" and spiffe://test/client-7. */
  readonly clientCert: string;
  readonly clientKey: string;
}

/** Files in `folder`; the server's certificate is good for `days` more days. */
export function makeCertificates(folder: string, days = 30): Certificates {
  const file = (name: string): string => join(folder, name);
  const openssl = (...args: string[]): void => {
    execFileSync("openssl", args, { stdio: ["ignore", "ignore", "pipe"] });
  };
  const newKey = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"];
  const ca = file("ca.pem");
  const caKey = file("ca.key");
  openssl(
    "req",
    "-x509",
    ...newKey,
    "-keyout",
    caKey,
    "-out",
    ca,
    "-subj",
    "/CN=test authority",
    "-days",
    "30",
  );
  const signed = (name: string, subject: string, names: string, forDays: number): void => {
    const request = file(`${name}.csr`);
    const extensions = file(`${name}.ext`);
    writeFileSync(extensions, `subjectAltName=${names}\n`);
    openssl("req", ...newKey, "-keyout", file(`${name}.key`), "-out", request, "-subj", subject);
    openssl(
      ...["x509", "-req", "-in", request, "-CA", ca, "-CAkey", caKey, "-CAcreateserial"],
      ...["-days", `${forDays}`, "-extfile", extensions, "-out", file(`${name}.pem`)],
    );
  };
  signed("server", "/CN=localhost", "DNS:localhost,IP:127.0.0.1", days);
  signed("client", "/CN=client-7", "URI:spiffe://test/client-7", 30);
  return {
    ca,
    cert: file("server.pem"),
    key: file("server.key"),
    clientCert: file("client.pem"),
    clientKey: file("client.key"),
  };
}
