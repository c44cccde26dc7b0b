// Comparison of Linux releases.

/** Returns whether a kernel release such as "6.18.44" is `since`, such as [6, 17], or later. */
export function isSince(kernelRelease: string, since: readonly [number, number]): boolean {
  const [major = 0, minor = 0] = kernelRelease.split(".").map(Number.parseFloat);
  return major > since[0] || (major === since[0] && minor >= since[1]);
}
