// Drives the simulated M-Pesa by mpesa-api, whose pay-outs and deposits are those of version 1.

const assert = require('assert')
const fs = require('fs')
const http = require('http')
const os = require('os')
const path = require('path')
const { Mpesa } = require('mpesa-api')
const { routes } = require('mpesa-api/lib/routes')

const { receiveCallbacks } = require('./callback_receiver')

const ORIGIN = process.env.OPERATOR_URL
const PASSKEY = 'bfb279f9aa9bdbcf158e97dd71a467cd2e0c893059b10f78e6b72ada1ed2c919'
const CUSTOMER = '254708374149'

async function main () {
  const { url, next } = await receiveCallbacks()
  const certificate = path.join(fs.mkdtempSync(path.join(os.tmpdir(), 'mpesa-')), 'certificate.cer')
  fs.writeFileSync(certificate, await (await fetch(`${ORIGIN}/_simulator/certificate`)).text())
  routes.sandbox = ORIGIN
  http.globalAgent.defaultPort = new URL(ORIGIN).port // It takes the host of an address, and no port.
  const account = {
    clientKey: 'consumer-key',
    clientSecret: 'consumer-secret',
    initiatorPassword: 'Safaricom999!*!',
    certificatePath: certificate
  }
  const client = new Mpesa(account, 'sandbox')
  const results = { ResultURL: `${url}/result`, QueueTimeOutURL: `${url}/timeout` }

  // Its own TransactionType ends in a blank, and its description has 20 characters; M-Pesa documents at most 13.
  await client.lipaNaMpesaOnline({
    BusinessShortCode: 174379,
    passKey: PASSKEY,
    TransactionType: 'CustomerPayBillOnline',
    TransactionDesc: 'Deposit',
    Amount: 100,
    PartyA: CUSTOMER,
    PartyB: 174379,
    PhoneNumber: CUSTOMER,
    CallBackURL: `${url}/stk`,
    AccountReference: 'INV0001'
  })
  const paid = (await next()).Body.stkCallback
  assert.strictEqual(paid.ResultCode, 0)
  const receipt = paid.CallbackMetadata.Item.find((each) => each.Name === 'MpesaReceiptNumber').Value
  const query = { BusinessShortCode: 174379, passKey: PASSKEY, CheckoutRequestID: paid.CheckoutRequestID }
  assert.strictEqual((await client.lipaNaMpesaQuery(query)).ResultCode, '0')

  const payout = { Initiator: 'testapi', CommandID: 'BusinessPayment', Amount: 100, PartyA: 600997, PartyB: CUSTOMER }
  await client.b2c({ ...payout, ...results })
  assert.strictEqual((await next()).Result.ResultCode, 0)
  const status = { CommandID: 'TransactionStatusQuery', TransactionID: receipt, PartyA: 174379, IdentifierType: 4 }
  await client.transactionStatus({ Initiator: 'testapi', ...status, ...results })
  assert.strictEqual((await next()).Result.ResultCode, 0)
  await client.accountBalance({
    Initiator: 'testapi', CommandID: 'AccountBalance', PartyA: 600997, IdentifierType: 4, Remarks: 'x', ...results
  })
  assert.strictEqual((await next()).Result.ResultCode, '0')
  const back = { CommandID: 'TransactionReversal', TransactionID: receipt, Amount: 100, ReceiverParty: 174379 }
  await client.reversal({ Initiator: 'testapi', ...back, RecieverIdentifierType: 11, Remarks: 'Paid twice', ...results })
  assert.strictEqual((await next()).Result.ResultCode, '0')

  const urls = { ConfirmationURL: `${url}/confirmation`, ValidationURL: `${url}/validation` }
  await client.c2bRegister({ ShortCode: 174379, ResponseType: 'Completed', ...urls })
  const deposit = { ShortCode: 174379, CommandID: 'CustomerPayBillOnline', Amount: 5, BillRefNumber: 'ACC1' }
  await client.c2bSimulate({ ...deposit, Msisdn: Number(CUSTOMER) })
  assert.strictEqual((await next()).BillRefNumber, 'ACC1')
}

main().then(() => process.exit(0), (error) => {
  console.error(error.response ? error.response.data : error)
  process.exit(1)
})
