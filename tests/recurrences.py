"""Recurrent layers that several tests run over: name -> text."""

RNN = """
x: input[T, n]
U: param[m, m]
W: param[m, n]
b: param[m]
V: param[k, m]
h[t: T] = tanh(U @ h[t - 1] + W @ x[t] + b)
y = V @ h[T - 1]
"""

LSTM = """
x: input[T, n]
W: param[4, m, n]
U: param[4, m, m]
b: param[4, m]
h[-1] = 0
i[t: T] = sigmoid(W[0] @ x[t] + U[0] @ h[t - 1] + b[0])
f[t: T] = sigmoid(W[1] @ x[t] + U[1] @ h[t - 1] + b[1])
o[t: T] = sigmoid(W[2] @ x[t] + U[2] @ h[t - 1] + b[2])
g[t: T] = tanh(W[3] @ x[t] + U[3] @ h[t - 1] + b[3])
c[t: T] = f[t] * c[t - 1] + i[t] * g[t]
h[t: T] = o[t] * tanh(c[t])
y = h[T - 1]
"""

GRU = """
x: input[T, n]
h0: param[m]
W: param[3, m, n]
U: param[3, m, m]
h[-1] = h0
r[t: T] = sigmoid(W[0] @ x[t] + U[0] @ h[t - 1])
u[t: T] = sigmoid(W[1] @ x[t] + U[1] @ h[t - 1])
c[t: T] = tanh(W[2] @ x[t] + r[t] * (U[2] @ h[t - 1]))
h[t: T] = (1 - u[t]) * c[t] + u[t] * h[t - 1]
y = h
"""

EULER = """
s: input[n]
r: const[T]
A: param[n, n]
w: param
x[-1] = s
x[t: T] = x[t - 1] + 0.1 * r[t] * tanh(A @ x[t - 1] + w * sin(t))
y = x[T - 1]
"""

KALMAN = """
z: input[T]
q: param
r: param
p0: param
assert q > 0
assert r > 0
assert p0 > 0
p[-1] = p0
m[t: T] = p[t - 1] + q
k[t: T] = m[t] / (m[t] + r)
p[t: T] = (1 - k[t]) * m[t]
x[t: T] = x[t - 1] + k[t] * (z[t] - x[t - 1])
y = x
"""

TWO_LAGS = """
u: input[T]
a: param
b: param
s: param
y[-1] = s
y[-2] = 2
y[t: T] = a * y[t - 1] + b * y[t - 2] + u[t]
"""

INDEX_STYLE = """
x: input[T]
a: param[m]
s: input[m]
h[-1, i] = s[i]
h[t: T, i] = a[i] * h[t - 1, i] + x[t]
z[t, i] = h[t, i] - h[t - 1, i]
y = sum(z ** 2, axis=None)
"""

ATTENDING = """
x: input[T, n]
A: param[n, n]
h[t: T] = softmax(A @ h[t - 1] + x[t])
y = sum(h * x, axis=None)
"""

MAX_POOLED = """
x: input[T, n]
A: param[n, n]
h[t: T] = x[t] + 0.3 * h[t - 1] * max(A @ h[t - 1] + x[t])
y = max(h, axis=0)
"""

TOKENS = """
w: index(v)[T]
E: param[v, m]
U: param[m, m]
h[t: T] = tanh(U @ h[t - 1] + E[w[t]])
y = logsumexp(h[T - 1])
"""

SHARED_ONLY = """
x: input
a: param[m]
B: param[m, m]
h[-1] = a
h[t: 4] = sin(B @ h[t - 1])
y = h[3] * x
"""

STOPPED = """
x: input[T]
a: param
b: param
h[t: T] = a * h[t - 1] + stop_gradient(b * h[t - 1]) + x[t]
y = h[T - 1]
"""

STACKED = """
x: input[T, n]
U: param[n, n]
V: param[n, n]
h[t: T] = tanh(U @ h[t - 1] + x[t])
g[s: T] = tanh(V @ g[s - 1] + h[s] + U @ h[s - 1])
y = g[T - 1]
z = sum(h ** 2, axis=None)
return y, z
"""

LITERAL = """
x: input[3, n]
A: param[n, n]
h[-1] = 1
h[t: 3] = A @ h[t - 1] * x[t]
y = h
"""

NORMED = """
x: input[T, n]
A: param[n, n]
h[t: T] = x[t] + (A @ h[t - 1]) / (1 + norm(A @ h[t - 1]))
y = prod(h[T - 1])
"""

FILTER = """
z: input[T, k]
A: param[n, n]
H: param[k, n]
Q: param[n, n]
P0: param[n, n]
m[-1] = zeros(n)
P[-1] = P0 @ P0.T
M[t: T] = A @ P[t - 1] @ A.T + Q @ Q.T
S[t: T] = H @ M[t] @ H.T + eye(k)
K[t: T] = M[t] @ H.T @ inv(S[t])
P[t: T] = M[t] - K[t] @ H @ M[t]
m[t: T] = A @ m[t - 1] + K[t] @ (z[t] - H @ A @ m[t - 1])
y = m[T - 1]
"""

FACTORED = """
x: input[T, n]
A: param[n, n]
C[t: T] = cholesky(eye(n) + 0.1 * A @ C[t - 1] @ C[t - 1].T @ A.T)
v[t: T] = solve(C[t], x[t] + 0.1 * v[t - 1])
y = v[T - 1]
"""

RECURRENCES = {
    "filter": FILTER,
    "factored": FACTORED,
    "rnn": RNN,
    "lstm": LSTM,
    "gru": GRU,
    "euler": EULER,
    "kalman": KALMAN,
    "two_lags": TWO_LAGS,
    "index_style": INDEX_STYLE,
    "attending": ATTENDING,
    "max_pooled": MAX_POOLED,
    "tokens": TOKENS,
    "shared_only": SHARED_ONLY,
    "stopped": STOPPED,
    "stacked": STACKED,
    "literal": LITERAL,
    "normed": NORMED,
}
